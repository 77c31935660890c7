package interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Members of one group that refuse each message twice.
 *
 * <pre>
 * java interop.Retried NAMESERVER TOPIC COUNT MEMBERS
 *   a line:  {"level_0":n,"level_1":n,"level_2":n,"doubled":n}   messages delivered at each level,
 *            and deliveries of a message at a level that it had been delivered at before
 * </pre>
 */
public final class Retried {
    private static final int LEVELS = 2;
    private static final long SECONDS_MAX = 200;
    private static final long AFTER_MS = 15_000;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Fixture.prepare(arguments[0], arguments[1]);
        Fixture fixture = new Fixture(arguments[0], arguments[1]);
        int count = Integer.parseInt(arguments[2]);
        Map<String, AtomicInteger> times = new ConcurrentHashMap<>();
        for (int member = Integer.parseInt(arguments[3]); member > 0; member--) {
            DefaultMQPushConsumer consumer = fixture.pushConsumer("C", Security.account());
            consumer.subscribe(arguments[1], "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                MessageExt message = messages.get(0);
                String row = message.getReconsumeTimes() + " " + message.getUserProperty("label");
                times.computeIfAbsent(row, first -> new AtomicInteger()).incrementAndGet();
                return message.getReconsumeTimes() < LEVELS
                        ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                        : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            fixture.start(consumer);
        }
        DefaultMQProducer producer =
                fixture.started(new DefaultMQProducer(fixture.group("P"), Security.account()));
        producer.setSendMsgTimeout(10_000);
        for (int number = 0; number < count; number++) {
            producer.send(fixture.message("retried-" + number, "TagA"));
        }
        Fixture.await(() -> times.size() == count * (LEVELS + 1), SECONDS_MAX);
        Thread.sleep(AFTER_MS);
        Map<String, Object> facts = new LinkedHashMap<>();
        for (int level = 0; level <= LEVELS; level++) {
            String start = level + " ";
            facts.put("level_" + level, times.keySet().stream().filter(row -> row.startsWith(start)).count());
        }
        facts.put("doubled", times.values().stream().mapToInt(AtomicInteger::get).sum() - times.size());
        answers.println(Json.text(facts));
        Runtime.getRuntime().halt(0);
    }
}
