import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import io.debezium.engine.format.Json;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Executors;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Runs Debezium's engine until it has given so many rows, or none for so many seconds.
 *
 * <p>Arguments: the rows (0: until the first one that is not of a snapshot, in JSON), the seconds, a
 * file for the events as lines of JSON (or "connect": records are only touched), "stop" if the
 * offsets are to be kept or "halt" to end right after the last row, and properties as name=value.
 */
public class Debezium {
    static long rows, touched, wanted;
    static volatile long latest = System.nanoTime();
    static volatile boolean done;
    static BufferedWriter writer;

    static void row() {
        if (++rows == wanted) {
            done = true;
        }
    }

    static void write(
            List<ChangeEvent<String, String>> events,
            DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
            throws InterruptedException {
        try {
            for (var event : events) {
                if (event.value() != null) {
                    writer.write(event.value());
                    writer.write('\n');
                    row();
                    if (wanted == 0 && event.value().contains("\"snapshot\":\"false\"")) {
                        done = true;
                    }
                }
                committer.markProcessed(event);
            }
            committer.markBatchFinished();
            writer.flush();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        latest = System.nanoTime();
    }

    static void touch(
            List<RecordChangeEvent<SourceRecord>> events,
            DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        for (var event : events) {
            if (event.record().value() instanceof Struct value) {
                for (String image : List.of("before", "after")) {
                    if (value.get(image) instanceof Struct struct) {
                        for (var field : struct.schema().fields()) {
                            Object given = struct.get(field);
                            touched += given == null ? 0 : given.hashCode();
                        }
                    }
                }
                row();
            }
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
        latest = System.nanoTime();
    }

    static DebeziumEngine<?> engine(Properties properties, String output) throws Exception {
        DebeziumEngine.CompletionCallback ended = (success, message, error) -> {
            if (!success) {
                System.err.println(message);
                if (error != null) {
                    error.printStackTrace();
                }
                Runtime.getRuntime().halt(1);
            }
        };
        if (output.equals("connect")) {
            return DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                    .using(properties).using(ended).notifying(Debezium::touch).build();
        }
        writer = Files.newBufferedWriter(Path.of(output));
        return DebeziumEngine.create(Json.class)
                .using(properties).using(ended).notifying(Debezium::write).build();
    }

    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        for (String pair : List.of(arguments).subList(4, arguments.length)) {
            String[] parts = pair.split("=", 2);
            properties.setProperty(parts[0], parts[1]);
        }
        wanted = Long.parseLong(arguments[0]);
        long idle = Long.parseLong(arguments[1]) * 1_000_000_000L;
        var engine = engine(properties, arguments[2]);
        Executors.newSingleThreadExecutor().execute(engine);
        while (!done && System.nanoTime() - latest < idle) {
            Thread.sleep(10);
        }
        if (arguments[3].equals("stop")) {
            Thread.sleep(1000); // The batch of the last row is committed.
            engine.close();
        }
        System.out.printf("{\"rows\": %d, \"touched\": %d}%n", rows, touched);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
