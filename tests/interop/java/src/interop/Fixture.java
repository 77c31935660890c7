package interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/** One scenario's topic, group names and clients; closes the clients at the end. */
final class Fixture implements AutoCloseable {
    private static final int PREPARE_ATTEMPTS_MAX = 10;
    /** A rebalance takes up to 20 s, a check of a transaction up to 36 s. */
    static final long WAIT_SECONDS_MAX = 60;
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    final String nameserver;
    final String topic;
    private final List<AutoCloseable> open = new ArrayList<>();

    Fixture(String nameserver, String topic) {
        this.nameserver = nameserver;
        this.topic = topic;
    }

    /** A group name of this scenario alone. */
    String group(String role) {
        return "G_" + topic + "_" + role;
    }

    /** Each client gets a client id, and so connections, of its own; programs run beside each other. */
    <T extends ClientConfig> T own(T client) {
        client.setNamesrvAddr(nameserver);
        client.setInstanceName("i" + ProcessHandle.current().pid() + "-" + INSTANCES.incrementAndGet());
        return client;
    }

    void closeLater(AutoCloseable client) {
        synchronized (open) {
            open.add(client);
        }
    }

    DefaultMQProducer producer() throws Exception {
        return started(new DefaultMQProducer(group("P")));
    }

    <T extends DefaultMQProducer> T started(T producer) throws Exception {
        own(producer);
        producer.start();
        closeLater(producer::shutdown);
        return producer;
    }

    /** A push consumer of group `role` that reads from the beginning; not started yet. */
    DefaultMQPushConsumer pushConsumer(String role) {
        return pushConsumerOf(group(role));
    }

    /** The same of a group that others are members of, too. */
    DefaultMQPushConsumer pushConsumerOf(String group) {
        return firstOffset(own(new DefaultMQPushConsumer(group)));
    }

    DefaultMQPushConsumer pushConsumer(String role, RPCHook hook) {
        return firstOffset(own(
                new DefaultMQPushConsumer(group(role), hook, new AllocateMessageQueueAveragely())));
    }

    private static DefaultMQPushConsumer firstOffset(DefaultMQPushConsumer consumer) {
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    /**
     * Before a program waits for its moment: look at a route, and so load a client's classes. Many
     * programs that do so at one moment are too slow for the limit of 3 s. The process ends when
     * main fails, although a client's threads go on.
     */
    static void prepare(String nameserver, String topic) throws Exception {
        Thread.currentThread().setUncaughtExceptionHandler((main, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        DefaultMQProducer producer = new DefaultMQProducer("Warm");
        producer.setInstanceName("warm");
        producer.setNamesrvAddr(nameserver);
        producer.start();
        for (int attempt = 1; !isRouteSeen(producer, topic); attempt++) {
            if (attempt == PREPARE_ATTEMPTS_MAX) {
                throw new IllegalStateException("no route of " + topic + " was seen");
            }
        }
        producer.shutdown();
    }

    private static boolean isRouteSeen(DefaultMQProducer producer, String topic) {
        try {
            return !producer.fetchPublishMessageQueues(topic).isEmpty();
        } catch (Exception late) {
            return false;
        }
    }

    void start(DefaultMQPushConsumer consumer) throws Exception {
        consumer.start();
        closeLater(consumer::shutdown);
    }

    DefaultLitePullConsumer litePull(String role) {
        DefaultLitePullConsumer consumer = own(new DefaultLitePullConsumer(group(role)));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    void start(DefaultLitePullConsumer consumer) throws Exception {
        consumer.start();
        closeLater(consumer::shutdown);
    }

    /** The message model's package differs between 4.x and 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void broadcasting(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class type = method.getParameterTypes()[0];
                method.invoke(consumer, Enum.valueOf(type, "BROADCASTING"));
                return;
            }
        }
        throw new NoSuchMethodException("setMessageModel");
    }

    /** A message whose body, key and property `label` are all the label. */
    Message message(String label, String tag) {
        Message message = new Message(topic, tag, "k-" + label, bytes(label));
        message.putUserProperty("label", label);
        return message;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    static Map<String, Object> sent(String label, SendResult result) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("label", label);
        facts.put("status", result.getSendStatus().name());
        facts.put("id", result.getMsgId());
        facts.put("offset_id", result.getOffsetMsgId());
        place(facts, result.getMessageQueue());
        facts.put("offset", result.getQueueOffset());
        return facts;
    }

    static Map<String, Object> received(MessageExt message) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("label", message.getUserProperty("label"));
        facts.put("id", message.getMsgId());
        facts.put("body_bytes", message.getBody().length);
        facts.put("key", message.getKeys());
        facts.put("tag", message.getTags());
        facts.put("broker", message.getBrokerName());
        facts.put("queue", message.getQueueId());
        facts.put("offset", message.getQueueOffset());
        facts.put("reconsumed", message.getReconsumeTimes());
        facts.put("born_ms", message.getBornTimestamp());
        facts.put("stored_ms", message.getStoreTimestamp());
        facts.put("at_ms", System.currentTimeMillis());
        return facts;
    }

    private static void place(Map<String, Object> facts, MessageQueue queue) {
        facts.put("broker", queue == null ? null : queue.getBrokerName());
        facts.put("queue", queue == null ? null : queue.getQueueId());
    }

    static <T> List<T> list() {
        return Collections.synchronizedList(new ArrayList<>());
    }

    /** Waits until `done`, at most `seconds`; the harness sees from the facts whether it was. */
    static boolean await(BooleanSupplier done, long seconds) throws InterruptedException {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }

    /** Waits for `done`, then a little longer, so that something twice or too much is seen. */
    static void settle(BooleanSupplier done) throws InterruptedException {
        await(done, WAIT_SECONDS_MAX);
        Thread.sleep(700);
    }

    @Override
    public void close() {
        synchronized (open) {
            for (AutoCloseable client : open) {
                try {
                    client.close();
                } catch (Exception error) {
                    System.err.println("while closing: " + error);
                }
            }
        }
    }
}
