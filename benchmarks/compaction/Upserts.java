import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.ReadBuilder;

/**
 * Apache Paimon doing the work of the compaction benchmark.
 *
 * <p>Arguments: "upsert", a table to take rows from, and tables to write them to; or "full" and tables to compact
 * fully. One line of output per table: wall seconds, and seconds of processor time of the whole process. The rows
 * are in memory before the clock starts. The first table warms the compiler up.
 */
public final class Upserts {
    private interface Work {
        void on(StreamTableWrite write) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        boolean full = arguments[0].equals("full");
        List<InternalRow> rows = full ? null : rows(table(arguments[1]));
        for (int i = full ? 1 : 2; i < arguments.length; i++) {
            FileStoreTable table = table(arguments[i]);
            long processor = processorTime();
            long began = System.nanoTime();
            if (full) {
                compact(table);
            } else {
                commit(table, write -> {
                    for (InternalRow row : rows) {
                        write.write(row);
                    }
                });
            }
            double wall = (System.nanoTime() - began) / 1e9;
            System.out.println("took " + wall + " " + (processorTime() - processor) / 1e9);
        }
        System.exit(0);
    }

    private static FileStoreTable table(String path) {
        return FileStoreTableFactory.create(LocalFileIO.create(), new Path(path));
    }

    private static long processorTime() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    private static List<InternalRow> rows(FileStoreTable table) throws Exception {
        List<InternalRow> rows = new ArrayList<>();
        InternalRowSerializer serializer = new InternalRowSerializer(table.rowType());
        ReadBuilder builder = table.newReadBuilder();
        builder.newRead()
                .createReader(builder.newScan().plan())
                .forEachRemaining(row -> rows.add(serializer.copy(row)));
        return rows;
    }

    private static void compact(FileStoreTable table) throws Exception {
        Map<BinaryRow, Set<Integer>> buckets = new HashMap<>();
        table.store().newScan().plan().files().forEach(entry ->
                buckets.computeIfAbsent(entry.partition(), p -> new LinkedHashSet<>()).add(entry.bucket()));
        commit(table, write -> {
            for (Map.Entry<BinaryRow, Set<Integer>> partition : buckets.entrySet()) {
                for (int bucket : partition.getValue()) {
                    write.compact(partition.getKey(), bucket, true);
                }
            }
        });
    }

    private static void commit(FileStoreTable table, Work work) throws Exception {
        String user = UUID.randomUUID().toString();
        try (StreamTableWrite write = table.newWrite(user)
                        .withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
                TableCommitImpl commit = table.newCommit(user)) {
            work.on(write);
            commit.commit(1, write.prepareCommit(true, 1));
        }
    }
}
