import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.Snapshot;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.IndexFileHandler;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.reader.FileRecordIterator;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.system.RowTrackingTable;
import org.apache.paimon.types.RowType;

/**
 * What a newer Paimon does to append tables besides: delete and update rows by deletion vectors, and compact tables
 * without buckets, by the same steps as its Spark and Flink commands take, and tell the ids of rows. All other commands
 * are those of Peer.
 */
public final class AppendPeer {
    public static void main(String[] arguments) throws Exception {
        Peer.serve(AppendPeer::carryOut);
    }

    private static JsonNode carryOut(JsonNode command) throws Exception {
        String name = command.get("do").asText();
        if (name.equals("change rows")) {
            changeRows(Peer.table(command), command.get("where"), command.get("to_null"));
            return null;
        }
        if (name.equals("compact") && Peer.table(command).bucketMode() == BucketMode.BUCKET_UNAWARE) {
            compact(Peer.table(command));
            return null;
        }
        if (name.equals("row ids")) {
            return rowIds(Peer.table(command));
        }
        return Peer.carryOut(command);
    }

    /** The id and the sequence number of every row, as the system table of row tracking gives them. */
    private static JsonNode rowIds(FileStoreTable table) throws Exception {
        RowTrackingTable tracking = new RowTrackingTable(table);
        int id = tracking.rowType().getFieldIndex(SpecialFields.ROW_ID.name());
        int number = tracking.rowType().getFieldIndex(SpecialFields.SEQUENCE_NUMBER.name());
        ArrayNode rows = new ObjectMapper().createArrayNode();
        try (RecordReader<InternalRow> reader = tracking.newRead().createReader(tracking.newScan().plan())) {
            reader.forEachRemaining(row -> rows.addArray().add(row.getLong(id)).add(row.getLong(number)));
        }
        return rows;
    }

    /** Deletes the rows that satisfy a condition; with the number of a column, adds them again with null there. */
    private static void changeRows(FileStoreTable table, JsonNode where, JsonNode column) throws Exception {
        table = table.copy(Collections.singletonMap("write-only", "true"));
        String user = UUID.randomUUID().toString();
        Snapshot read = table.snapshotManager().latestSnapshot();
        List<CommitMessage> messages = new ArrayList<>();
        try (StreamTableWrite write = table.newWrite(user)) {
            write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            for (DeletedRows deleted : deletedRows(table, where, column, write).values()) {
                messages.add(deleted.message(table, read));
            }
            if (messages.isEmpty()) {
                return;
            }
            messages.addAll(write.prepareCommit(true, 0));
        }
        Peer.commit(table, user, messages);
    }

    private static Map<String, DeletedRows> deletedRows(
            FileStoreTable table, JsonNode where, JsonNode column, StreamTableWrite write) throws Exception {
        Predicate predicate = Peer.predicate(table.rowType(), where);
        Map<String, DeletedRows> found = new HashMap<>();
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            DataSplit data = (DataSplit) split;
            DeletedRows of =
                    found.computeIfAbsent(data.bucketPath(), path -> new DeletedRows(data.partition(), data.bucket()));
            try (RecordReader<InternalRow> reader = table.newReadBuilder().newRead().createReader(split)) {
                RecordReader.RecordIterator<InternalRow> batch = reader.readBatch();
                for (; batch != null; batch = reader.readBatch()) {
                    FileRecordIterator<InternalRow> rows = (FileRecordIterator<InternalRow>) batch;
                    for (InternalRow row = rows.next(); row != null; row = rows.next()) {
                        if (predicate.test(row)) {
                            of.add(rows.filePath().getName(), rows.returnedPosition(), bitmap64(table));
                            if (!column.isNull()) {
                                write.write(without(row, table.rowType(), column.asInt()));
                            }
                        }
                    }
                    batch.releaseBatch();
                }
            }
        }
        found.values().removeIf(deleted -> deleted.vectors.isEmpty());
        return found;
    }

    private static boolean bitmap64(FileStoreTable table) {
        return table.coreOptions().deletionVectorBitmap64();
    }

    private static GenericRow without(InternalRow row, RowType type, int column) {
        GenericRow made = new GenericRow(type.getFieldCount());
        for (int field = 0; field < type.getFieldCount(); field++) {
            Object value = InternalRow.createFieldGetter(type.getTypeAt(field), field).getFieldOrNull(row);
            made.setField(field, field == column ? null : value);
        }
        return made;
    }

    private static void compact(FileStoreTable table) throws Exception {
        List<AppendCompactTask> tasks = new ArrayList<>();
        try {
            tasks.addAll(new AppendCompactCoordinator(table, false).run());
        } catch (EndOfScanException nothing) {
            return;
        }
        String user = UUID.randomUUID().toString();
        List<CommitMessage> messages = new ArrayList<>();
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite(user);
        if (table.coreOptions().rowTrackingEnabled()) {
            write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
        }
        for (AppendCompactTask task : tasks) {
            messages.add(task.doCompact(table, write));
        }
        write.close();
        Peer.commit(table, user, messages);
    }

    /** The rows of one bucket to delete: positions by data file. */
    private static final class DeletedRows {
        private final BinaryRow partition;
        private final int bucket;
        private final Map<String, DeletionVector> vectors = new HashMap<>();

        DeletedRows(BinaryRow partition, int bucket) {
            this.partition = partition;
            this.bucket = bucket;
        }

        void add(String file, long position, boolean bitmap64) {
            vectors.computeIfAbsent(
                            file, name -> bitmap64 ? new Bitmap64DeletionVector() : new BitmapDeletionVector())
                    .delete(position);
        }

        CommitMessage message(FileStoreTable table, Snapshot read) {
            IndexFileHandler handler = table.store().newIndexFileHandler();
            BaseAppendDeleteFileMaintainer maintainer =
                    table.bucketMode() == BucketMode.BUCKET_UNAWARE
                            ? BaseAppendDeleteFileMaintainer.forUnawareAppend(handler, read, partition)
                            : BaseAppendDeleteFileMaintainer.forBucketedAppend(handler, read, partition, bucket);
            vectors.forEach(maintainer::notifyNewDeletionVector);
            List<IndexFileMeta> added = new ArrayList<>();
            List<IndexFileMeta> removed = new ArrayList<>();
            for (IndexManifestEntry entry : maintainer.persist()) {
                (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
            }
            DataIncrement increment = new DataIncrement(
                    new ArrayList<>(), new ArrayList<>(), new ArrayList<>(), added, removed);
            return new CommitMessageImpl(
                    partition,
                    bucket,
                    table.coreOptions().bucket(),
                    increment,
                    CompactIncrement.emptyIncrement());
        }
    }
}
