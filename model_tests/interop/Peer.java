import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * Apache Paimon, driven by commands: one JSON object a line on standard input, one answer a line on standard output.
 *
 * <p>An answer is {"ok": value} or {"error": text}; the process stays alive after an error. Values of rows are
 * written as model_tests/interop/plain.py says. The source compiles against Paimon 0.9 and against newer releases.
 */
public final class Peer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TEMPORARY = System.getProperty("java.io.tmpdir");
    private static long commits = 0;
    private static List<CommitMessage> staged = Collections.emptyList();

    interface Work {
        void on(StreamTableWrite write) throws Exception;
    }

    interface Commands {
        JsonNode carryOut(JsonNode command) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        serve(Peer::carryOut);
    }

    static void serve(Commands commands) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err); // what Paimon or a library prints must not look like an answer
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("ok", commands.carryOut(JSON.readTree(line)));
            } catch (Throwable failure) { // an answer too: some commands must fail
                answer.put("error", chain(failure));
            }
            answers.println(JSON.writeValueAsString(answer));
        }
        System.exit(0);
    }

    static JsonNode carryOut(JsonNode command) throws Exception {
        String name = command.get("do").asText();
        if (name.equals("hello")) {
            return null;
        }
        Path path = new Path(command.get("table").asText());
        if (name.equals("create")) {
            create(path, command);
            return null;
        }
        if (name.equals("tables")) {
            try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(path))) {
                return JSON.valueToTree(catalog.listTables(command.get("database").asText()));
            }
        }
        if (name.equals("columns")) {
            return columns(path, command.get("database").asText(), command.get("name").asText());
        }
        if (name.equals("alter")) {
            alter(path, command.get("changes"));
            return null;
        }
        FileStoreTable table = table(command);
        switch (name) {
            case "write":
                if (command.path("write_only").asBoolean()) {
                    table = table.copy(Collections.singletonMap("write-only", "true"));
                }
                write(table, command.get("rows"));
                return null;
            case "stage":
                staged = stage(table, command.get("rows"));
                return null;
            case "commit":
                commit(table, UUID.randomUUID().toString(), staged);
                return null;
            case "overwrite":
                overwrite(table, command.get("rows"));
                return null;
            case "compact":
                compact(table, command.path("full").asBoolean());
                return null;
            case "read":
                return readSnapshots(table, command.path("where"));
            case "read latest":
                return rows(table, null);
            case "changes":
                return readChanges(table, command.path("first").asLong());
            case "tag":
                table.createTag(command.get("name").asText(), command.get("snapshot").asLong());
                return null;
            case "delete tag":
                table.deleteTag(command.get("name").asText());
                return null;
            case "roll back":
                table.rollbackTo(command.get("snapshot").asLong());
                return null;
            case "branch":
                table.createBranch(command.get("name").asText(), command.get("tag").asText());
                return null;
            case "branches":
                return JSON.valueToTree(table.branchManager().branches());
            case "fast forward":
                table.fastForward(command.get("name").asText());
                return null;
            case "bucket mode":
                return JSON.valueToTree(table.bucketMode().name());
            case "expire":
                expire(table, command.get("retain").asInt(), command.path("changelogs").asInt());
                return null;
            case "read tag":
                String tag = command.get("name").asText();
                return rows(table.copy(Collections.singletonMap("scan.tag-name", tag)), null);
            default:
                throw new IllegalArgumentException("unknown command " + name);
        }
    }

    static FileStoreTable table(JsonNode command) {
        Path path = new Path(command.get("table").asText());
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), path);
        return command.has("on") ? table.switchToBranch(command.get("on").asText()) : table;
    }

    /** The names of the columns of a table of a warehouse, which may be a system table. */
    private static JsonNode columns(Path warehouse, String database, String name) throws Exception {
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(warehouse))) {
            Identifier table = Identifier.create(database, name);
            return JSON.valueToTree(catalog.getTable(table).rowType().getFieldNames());
        }
    }

    // ------------------------------------------------------------------ definitions

    private static void create(Path path, JsonNode command) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : command.get("columns")) {
            schema.column(column.get(0).asText(), type(column.get(1)));
        }
        schema.primaryKey(texts(command.get("primary_key")));
        schema.partitionKeys(texts(command.get("partition_by")));
        command.get("options").fields().forEachRemaining(o -> schema.option(o.getKey(), o.getValue().asText()));
        new SchemaManager(LocalFileIO.create(), path).createTable(schema.build());
    }

    private static void alter(Path path, JsonNode changes) throws Exception {
        List<SchemaChange> all = new ArrayList<>();
        for (JsonNode change : changes) {
            String column = change.get(1).asText();
            switch (change.get(0).asText()) {
                case "add column":
                    all.add(SchemaChange.addColumn(column, type(change.get(2))));
                    break;
                case "rename column":
                    all.add(SchemaChange.renameColumn(column, change.get(2).asText()));
                    break;
                case "change type":
                    all.add(SchemaChange.updateColumnType(column, type(change.get(2))));
                    break;
                case "drop column":
                    all.add(SchemaChange.dropColumn(column));
                    break;
                case "set option":
                    all.add(SchemaChange.setOption(column, change.get(2).asText()));
                    break;
                default:
                    throw new IllegalArgumentException("unknown change " + change);
            }
        }
        new SchemaManager(LocalFileIO.create(), path).commitChanges(all);
    }

    /** Expires snapshots, and keeps the changelogs of as many as `changelogs` says, if that is more. */
    private static void expire(FileStoreTable table, int retain, int changelogs) {
        ExpireConfig config = ExpireConfig.builder()
                .snapshotRetainMin(retain)
                .snapshotRetainMax(retain)
                .snapshotTimeRetain(Duration.ZERO)
                .changelogRetainMin(Math.max(retain, changelogs))
                .changelogRetainMax(Math.max(retain, changelogs))
                .changelogTimeRetain(Duration.ZERO)
                .build();
        table.newExpireSnapshots().config(config).expire();
        table.newExpireChangelog().config(config).expire();
    }

    private static DataType type(JsonNode text) {
        return DataTypeJsonParser.parseDataType(text);
    }

    // ------------------------------------------------------------------ writing

    static void commit(FileStoreTable table, Work work) throws Exception {
        // Every commit is a user of its own, so that no commit of this process is taken for the retry of another.
        String user = UUID.randomUUID().toString();
        try (StreamTableWrite write = table.newWrite(user)) {
            write.withIOManager(IOManager.create(TEMPORARY));
            work.on(write);
            commit(table, user, write.prepareCommit(true, commits));
        }
    }

    static void commit(FileStoreTable table, String user, List<CommitMessage> messages) throws Exception {
        try (TableCommitImpl commit = table.newCommit(user).ignoreEmptyCommit(true)) {
            commit.commit(commits++, messages);
        }
    }

    private static void write(FileStoreTable table, JsonNode rows) throws Exception {
        RowType type = table.rowType();
        commit(table, write -> {
            for (JsonNode row : rows) {
                write.write(row(row, type));
            }
        });
    }

    private static void overwrite(FileStoreTable table, JsonNode rows) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder().withOverwrite();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(TEMPORARY));
            for (JsonNode row : rows) {
                write.write(row(row, table.rowType()));
            }
            commit.commit(write.prepareCommit());
        }
    }

    /** What a later command commits. */
    private static List<CommitMessage> stage(FileStoreTable table, JsonNode rows) throws Exception {
        table = table.copy(Collections.singletonMap("write-only", "true"));
        try (StreamTableWrite write = table.newWrite(UUID.randomUUID().toString())) {
            write.withIOManager(IOManager.create(TEMPORARY));
            for (JsonNode row : rows) {
                write.write(row(row, table.rowType()));
            }
            return write.prepareCommit(true, commits);
        }
    }

    static void compact(FileStoreTable table, boolean full) throws Exception {
        Map<BinaryRow, Set<Integer>> buckets = new HashMap<>();
        table.store().newScan().plan().files().forEach(entry ->
                buckets.computeIfAbsent(entry.partition(), p -> new LinkedHashSet<>()).add(entry.bucket()));
        commit(table, write -> {
            for (Map.Entry<BinaryRow, Set<Integer>> partition : buckets.entrySet()) {
                for (int bucket : partition.getValue()) {
                    write.compact(partition.getKey(), bucket, full);
                }
            }
        });
    }

    private static GenericRow row(JsonNode row, RowType type) throws Exception {
        GenericRow made = new GenericRow(kind(row.get(0).asText()), type.getFieldCount());
        for (int field = 0; field < type.getFieldCount(); field++) {
            JsonNode value = row.get(field + 1);
            made.setField(field, valueOf(value, type.getTypeAt(field)));
        }
        return made;
    }

    private static RowKind kind(String symbol) {
        for (RowKind kind : RowKind.values()) {
            if (kind.shortString().equals(symbol)) {
                return kind;
            }
        }
        throw new IllegalArgumentException("unknown row kind " + symbol);
    }

    // ------------------------------------------------------------------ reading

    /** Answers {"1": {"ok": rows}, "2": {"error": text}, ...}: every retained snapshot, an error being its own. */
    private static JsonNode readSnapshots(FileStoreTable table, JsonNode where) throws Exception {
        ObjectNode snapshots = JSON.createObjectNode();
        Long first = table.snapshotManager().earliestSnapshotId();
        if (first == null) {
            return snapshots;
        }
        for (long id = first; id <= table.snapshotManager().latestSnapshotId(); id++) {
            ObjectNode answer = snapshots.putObject(String.valueOf(id));
            try {
                Map<String, String> travel = Collections.singletonMap("scan.snapshot-id", String.valueOf(id));
                answer.set("ok", rows(table.copy(travel), where));
            } catch (Throwable failure) {
                answer.put("error", chain(failure));
            }
        }
        return snapshots;
    }

    /**
     * Answers as `readSnapshots`, with the changes of every snapshot, each a row with its kind in front. They are read as
     * a stream reads them: a batch read leaves level 0 out where there are deletion vectors, and all changes with it.
     * `from`: the first snapshot, which may have expired; 0 for the earliest one.
     */
    private static JsonNode readChanges(FileStoreTable table, long from) throws Exception {
        ObjectNode snapshots = JSON.createObjectNode();
        Long first = from > 0 ? Long.valueOf(from) : table.snapshotManager().earliestSnapshotId();
        if (first == null) {
            return snapshots;
        }
        long latest = table.snapshotManager().latestSnapshotId();
        for (long id = first; id <= latest; id++) {
            snapshots.putObject(String.valueOf(id)).putArray("ok");
        }
        RowType type = table.rowType();
        InternalRow.FieldGetter[] getters = getters(type);
        ReadBuilder builder = table.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        scan.restore(first);
        while (scan.checkpoint() <= latest) {
            for (Split split : scan.plan().splits()) {
                String id = String.valueOf(((DataSplit) split).snapshotId());
                ArrayNode rows = (ArrayNode) snapshots.get(id).get("ok");
                builder.newRead().createReader(split).forEachRemaining(row -> {
                    ArrayNode values = rows.addArray().add(row.getRowKind().shortString());
                    for (int field = 0; field < getters.length; field++) {
                        values.add(text(getters[field].getFieldOrNull(row), type.getTypeAt(field)));
                    }
                });
            }
        }
        return snapshots;
    }

    private static InternalRow.FieldGetter[] getters(RowType type) {
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[type.getFieldCount()];
        for (int field = 0; field < getters.length; field++) {
            getters[field] = InternalRow.createFieldGetter(type.getTypeAt(field), field);
        }
        return getters;
    }

    private static ArrayNode rows(FileStoreTable table, JsonNode where) throws Exception {
        RowType type = table.rowType();
        InternalRow.FieldGetter[] getters = getters(type);
        ReadBuilder builder = table.newReadBuilder();
        if (where != null && where.size() > 0) {
            builder = builder.withFilter(predicate(type, where));
        }
        ArrayNode rows = JSON.createArrayNode();
        List<Split> splits = builder.newScan().plan().splits();
        builder.newRead().executeFilter().createReader(splits).forEachRemaining(row -> {
            if (row.getRowKind() != RowKind.INSERT && row.getRowKind() != RowKind.UPDATE_AFTER) {
                throw new IllegalStateException("a read returned a row of kind " + row.getRowKind());
            }
            ArrayNode values = rows.addArray();
            for (int field = 0; field < getters.length; field++) {
                values.add(text(getters[field].getFieldOrNull(row), type.getTypeAt(field)));
            }
        });
        return rows;
    }

    static Predicate predicate(RowType type, JsonNode where) {
        PredicateBuilder builder = new PredicateBuilder(type);
        List<Predicate> all = new ArrayList<>();
        for (JsonNode condition : where) {
            int field = type.getFieldNames().indexOf(condition.get(0).asText());
            Object literal = value(condition.get(2).asText(), type.getTypeAt(field));
            switch (condition.get(1).asText()) {
                case "=":
                    all.add(builder.equal(field, literal));
                    break;
                case "<>":
                    all.add(builder.notEqual(field, literal));
                    break;
                case "<":
                    all.add(builder.lessThan(field, literal));
                    break;
                case "<=":
                    all.add(builder.lessOrEqual(field, literal));
                    break;
                case ">":
                    all.add(builder.greaterThan(field, literal));
                    break;
                case ">=":
                    all.add(builder.greaterOrEqual(field, literal));
                    break;
                default:
                    throw new IllegalArgumentException("unknown operator in " + condition);
            }
        }
        return PredicateBuilder.and(all);
    }

    // ------------------------------------------------------------------ values

    private static Object valueOf(JsonNode value, DataType type) throws Exception {
        if (value.isNull()) {
            return null;
        }
        boolean nested = type instanceof ArrayType || type instanceof MapType || type instanceof RowType;
        return nested ? putTogether(JSON.readTree(value.asText()), type) : value(value.asText(), type);
    }

    /** Makes a value of the plain values in it, as model_tests/interop/plain.py puts them into JSON text. */
    private static Object putTogether(JsonNode parts, DataType type) {
        if (parts.isNull()) {
            return null;
        }
        if (type instanceof ArrayType) {
            List<Object> elements = new ArrayList<>();
            parts.forEach(part -> elements.add(putTogether(part, ((ArrayType) type).getElementType())));
            return new GenericArray(elements.toArray());
        }
        if (type instanceof MapType) {
            Map<Object, Object> entries = new HashMap<>();
            parts.forEach(pair -> entries.put(
                    putTogether(pair.get(0), ((MapType) type).getKeyType()),
                    putTogether(pair.get(1), ((MapType) type).getValueType())));
            return new GenericMap(entries);
        }
        if (type instanceof RowType) {
            GenericRow row = new GenericRow(parts.size());
            for (int field = 0; field < parts.size(); field++) {
                row.setField(field, putTogether(parts.get(field), ((RowType) type).getTypeAt(field)));
            }
            return row;
        }
        return value(parts.asText(), type);
    }

    private static JsonNode takenApart(Object value, DataType type) {
        ArrayNode parts = JSON.createArrayNode();
        if (value == null) {
            return JSON.nullNode();
        } else if (type instanceof ArrayType) {
            elements((InternalArray) value, ((ArrayType) type).getElementType()).forEach(parts::add);
        } else if (type instanceof MapType) {
            List<JsonNode> keys = elements(((InternalMap) value).keyArray(), ((MapType) type).getKeyType());
            List<JsonNode> values = elements(((InternalMap) value).valueArray(), ((MapType) type).getValueType());
            List<ArrayNode> pairs = new ArrayList<>();
            for (int at = 0; at < keys.size(); at++) {
                pairs.add(JSON.createArrayNode().add(keys.get(at)).add(values.get(at)));
            }
            pairs.sort(Comparator.comparing(pair -> pair.get(0).asText()));
            pairs.forEach(parts::add);
        } else if (type instanceof RowType) {
            InternalRow.FieldGetter[] getters = getters((RowType) type);
            for (int field = 0; field < getters.length; field++) {
                parts.add(takenApart(
                        getters[field].getFieldOrNull((InternalRow) value), ((RowType) type).getTypeAt(field)));
            }
        } else {
            return JSON.getNodeFactory().textNode(text(value, type));
        }
        return parts;
    }

    private static List<JsonNode> elements(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<JsonNode> elements = new ArrayList<>();
        for (int at = 0; at < array.size(); at++) {
            elements.add(takenApart(getter.getElementOrNull(array, at), type));
        }
        return elements;
    }

    private static Object value(String text, DataType type) {
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return Boolean.parseBoolean(text);
            case TINYINT:
                return Byte.parseByte(text);
            case SMALLINT:
                return Short.parseShort(text);
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return Integer.parseInt(text);
            case BIGINT:
                return Long.parseLong(text);
            case FLOAT:
                return text.equals("nan") ? Float.NaN : Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16));
            case DOUBLE:
                return text.equals("nan") ? Double.NaN : Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(text);
            case BINARY:
            case VARBINARY:
                return unhex(text);
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(new BigDecimal(text), decimal.getPrecision(), decimal.getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                long nanos = Long.parseLong(text);
                return Timestamp.fromEpochMillis(
                        Math.floorDiv(nanos, 1_000_000L), (int) Math.floorMod(nanos, 1_000_000L));
            default:
                throw new IllegalArgumentException("values of type " + type + " have no text");
        }
    }

    private static String text(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case FLOAT:
                return Float.isNaN((Float) value) ? "nan" : String.format("%08x", Float.floatToRawIntBits((Float) value));
            case DOUBLE:
                return Double.isNaN((Double) value)
                        ? "nan"
                        : String.format("%016x", Double.doubleToRawLongBits((Double) value));
            case BINARY:
            case VARBINARY:
                return hex((byte[]) value);
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp timestamp = (Timestamp) value;
                return String.valueOf(timestamp.getMillisecond() * 1_000_000L + timestamp.getNanoOfMillisecond());
            case ARRAY:
            case MAP:
            case ROW:
                return takenApart(value, type).toString();
            default:
                return value.toString();
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static byte[] unhex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(text.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(one -> texts.add(one.asText()));
        return texts;
    }

    private static String chain(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable one = failure; one != null; one = one.getCause()) {
            text.append(text.length() == 0 ? "" : " <- ").append(one);
        }
        return text.toString();
    }
}
