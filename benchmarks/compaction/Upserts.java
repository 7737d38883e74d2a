import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.ReadBuilder;

/**
 * Apache Paimon doing the work of the benchmarks of compactions.
 *
 * <p>Arguments: "upsert", a table to take rows from, and tables to write them to; or, for each table to compact, "full"
 * or "level 0" and the table. One line of output per table: wall seconds, and seconds of processor time of the whole
 * process. The rows are in memory before the clock starts. The first tables warm the compiler up.
 */
public final class Upserts {
    public static void main(String[] arguments) throws Exception {
        boolean upserts = arguments[0].equals("upsert");
        List<InternalRow> rows = upserts ? rows(table(arguments[1])) : null;
        for (int i = upserts ? 2 : 0; i < arguments.length; i += upserts ? 1 : 2) {
            FileStoreTable table = table(arguments[upserts ? i : i + 1]);
            boolean full = arguments[i].equals("full");
            long processor = processorTime();
            long began = System.nanoTime();
            if (upserts) {
                Peer.commit(table, write -> {
                    for (InternalRow row : rows) {
                        write.write(row);
                    }
                });
            } else {
                Peer.compact(table.copy(Collections.singletonMap("write-only", "false")), full);
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
}
