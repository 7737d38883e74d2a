import java.util.UUID;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowKind;

/** Two writers of one bucket: the second deletes key 1, the first knows nothing of it and brings it back. */
public class TwoWriters {
    static StreamTableWrite writer(FileStoreTable table, String user) throws Exception {
        StreamTableWrite writer = table.newWrite(user);
        writer.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
        return writer;
    }

    static void commit(FileStoreTable table, String user, long id, StreamTableWrite writer) throws Exception {
        table.newCommit(user).commit(id, writer.prepareCommit(true, id));
    }

    static GenericRow row(RowKind kind, int key, String value) {
        return GenericRow.ofKind(kind, key, BinaryString.fromString(value));
    }

    public static void main(String[] warehouse) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(warehouse[0])));
        catalog.createDatabase("d", true);
        Schema schema = Schema.newBuilder()
            .column("k", DataTypes.INT().notNull()).column("v", DataTypes.STRING()).primaryKey("k")
            .option("bucket", "1").option("deletion-vectors.enabled", "true").option("file.format", "parquet")
            .option("num-sorted-run.compaction-trigger", "100").build();
        catalog.createTable(Identifier.create("d", "two_writers"), schema, false);
        FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.create("d", "two_writers"));

        StreamTableWrite first = writer(table, "first");
        // Large enough not to be rewritten by what follows.
        for (int key = 1; key < 1000; key++) {
            first.write(row(RowKind.INSERT, key, "value " + key * 7919L));
        }
        commit(table, "first", 0, first);

        StreamTableWrite second = writer(table, "second");
        second.write(row(RowKind.DELETE, 1, ""));
        commit(table, "second", 0, second);
        second.close();

        first.write(row(RowKind.UPDATE_AFTER, 2, "new"));
        commit(table, "first", 1, first);
        System.exit(0);
    }
}
