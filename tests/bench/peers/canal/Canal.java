import com.taobao.tddl.dbsync.binlog.FileLogFetcher;
import com.taobao.tddl.dbsync.binlog.LogContext;
import com.taobao.tddl.dbsync.binlog.LogDecoder;
import com.taobao.tddl.dbsync.binlog.LogEvent;
import com.taobao.tddl.dbsync.binlog.LogPosition;
import com.taobao.tddl.dbsync.binlog.event.RowsLogBuffer;
import com.taobao.tddl.dbsync.binlog.event.RowsLogEvent;
import com.taobao.tddl.dbsync.binlog.event.TableMapLogEvent;
import com.taobao.tddl.dbsync.binlog.event.UpdateRowsLogEvent;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;

/** Reads a binlog file with canal, touches every value, and prints what it counted as JSON. */
public class Canal {
    static long images, values, touched;

    static void row(RowsLogBuffer buffer, BitSet columns, TableMapLogEvent.ColumnInfo[] infos) {
        images++;
        for (int i = 0; i < infos.length; i++) {
            if (!columns.get(i)) {
                continue;
            }
            values++;
            buffer.nextValue(null, i, infos[i].type, infos[i].meta);
            if (!buffer.isNull()) {
                Serializable value = buffer.getValue();
                touched += value instanceof byte[] ? ((byte[]) value).length : value.hashCode();
            }
        }
    }

    static void rows(RowsLogEvent event) throws Exception {
        RowsLogBuffer buffer = event.getRowsBuf(StandardCharsets.UTF_8);
        TableMapLogEvent.ColumnInfo[] infos = event.getTable().getColumnInfo();
        boolean update = event instanceof UpdateRowsLogEvent;
        while (buffer.nextOneRow(event.getColumns())) {
            row(buffer, event.getColumns(), infos);
            if (update && buffer.nextOneRow(event.getChangeColumns(), true)) {
                row(buffer, event.getChangeColumns(), infos);
            }
        }
    }

    static double[] read(String file) throws Exception {
        images = values = 0;
        var threads = ManagementFactory.getThreadMXBean();
        long began = System.nanoTime();
        long busy = threads.getCurrentThreadCpuTime();
        var fetcher = new FileLogFetcher((int) new java.io.File(file).length() + 1);
        fetcher.open(file);
        var decoder = new LogDecoder(LogEvent.UNKNOWN_EVENT, LogEvent.ENUM_END_EVENT);
        var context = new LogContext();
        context.setLogPosition(new LogPosition(file, 4));
        while (fetcher.fetch()) {
            LogEvent event;
            while ((event = decoder.decode(fetcher, context)) != null) {
                if (event instanceof RowsLogEvent) {
                    rows((RowsLogEvent) event);
                } else if (event.getHeader().getType() == LogEvent.TRANSACTION_PAYLOAD_EVENT) {
                    for (LogEvent inner : decoder.processIterateDecode(event, context)) {
                        if (inner instanceof RowsLogEvent) {
                            rows((RowsLogEvent) inner);
                        }
                    }
                }
            }
        }
        fetcher.close();
        return new double[] {
            (System.nanoTime() - began) / 1e9, (threads.getCurrentThreadCpuTime() - busy) / 1e9
        };
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = Integer.parseInt(arguments[1]);
        double[] best = null;
        for (int round = 0; round < rounds; round++) {
            double[] taken = read(arguments[0]);
            if (best == null || taken[1] < best[1]) {
                best = taken;
            }
        }
        System.out.printf(
                "{\"seconds\": %f, \"cpu\": %f, \"images\": %d, \"values\": %d}%n",
                best[0], best[1], images, values);
    }
}
