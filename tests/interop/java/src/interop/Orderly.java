package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * An ordered member of a group, beside others; ends in order when its input does.
 *
 * <pre>
 * java interop.Orderly NAMESERVER TOPIC GROUP FOLDER NAME
 *   FOLDER/queue-N.lock   locked while a message of the queue is handled
 *   FOLDER/queue-N.log    a line "NAME OFFSET LABEL" for each, written while that is locked
 *   FOLDER/together       a line for each message that met another member in its queue
 * </pre>
 */
public final class Orderly {
    private static final long HANDLING_MS = 30;

    private final Path folder;
    private final String name;

    private Orderly(Path folder, String name) {
        this.folder = folder;
        this.name = name;
    }

    private void handle(MessageExt message) throws Exception {
        String queue = "queue-" + message.getQueueId();
        String line = name + " " + message.getQueueOffset() + " " + message.getUserProperty("label");
        FileLock lock = null;
        try (FileChannel file = open(queue + ".lock")) {
            try {
                lock = file.tryLock();
            } catch (OverlappingFileLockException ours) {
                lock = null; // two threads of this member
            }
            if (lock == null) {
                append("together", queue + " " + line);
                return;
            }
            append(queue + ".log", line);
            Thread.sleep(HANDLING_MS);
        }
    }

    private FileChannel open(String file) throws Exception {
        return FileChannel.open(
                folder.resolve(file), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    }

    private void append(String file, String line) throws Exception {
        try (FileChannel log = FileChannel.open(
                folder.resolve(file), StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
            log.write(ByteBuffer.wrap(Fixture.bytes(line + "\n")));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Orderly member = new Orderly(Paths.get(arguments[3]), arguments[4]);
        Fixture fixture = new Fixture(arguments[0], arguments[1]);
        DefaultMQPushConsumer consumer = fixture.pushConsumerOf(arguments[2]);
        consumer.subscribe(arguments[1], "*");
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.setAwaitTerminationMillisWhenShutdown(5_000);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    member.handle(message);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            } catch (Exception error) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
        });
        fixture.start(consumer);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        while (orders.readLine() != null) {
            continue;
        }
        fixture.close();
        Runtime.getRuntime().halt(0);
    }
}
