package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Push consumers of one group with default settings, while somebody kills a leader for long.
 *
 * <pre>
 * java interop.DeadConsumer NAMESERVER TOPIC SENDERS PAUSE_MS [MEMBERS]
 *   stdin:   mark   one line: what happened since the mark before
 *            stop   the last one, when all that was acknowledged has been delivered, or after 45 s
 *   a line:  {"began_ms":t,"acked":n,"failed":n,"received":n,"distinct":n,"doubled":n,
 *             "gap_ms":longest without a message,"late_ms":longest from store to delivery,
 *             "missing":acknowledged and not delivered so far,"errors":[…]}
 *            members look at routes at t, t + 30 s, t + 60 s and so on
 * </pre>
 *
 * <p>A send that fails is sent again, under its number: what is delivered twice was sent twice, or
 * its consumer's position was not committed.
 */
public final class DeadConsumer {
    private static final int ERRORS_MAX = 5;
    private static final long CATCH_UP_SECONDS_MAX = 45;

    private final AtomicBoolean ends = new AtomicBoolean();
    private final AtomicInteger number = new AtomicInteger();
    private final DefaultMQProducer producer;
    private final Fixture fixture;
    private final long began;
    private final List<String> errors = new ArrayList<>();
    private final Set<String> acknowledged = new HashSet<>();
    private final Set<String> delivered = new HashSet<>();
    private int acked;
    private int failed;
    private int received;
    private int distinct;
    private int doubled;
    private long lastAt = System.currentTimeMillis();
    private long gap;
    private long late;

    private DeadConsumer(String nameserver, String topic, int members) throws Exception {
        fixture = new Fixture(nameserver, topic);
        producer = fixture.started(new DefaultMQProducer(fixture.group("P"), Security.account()));
        began = System.currentTimeMillis();
        for (int member = 0; member < members; member++) {
            DefaultMQPushConsumer consumer = fixture.pushConsumer("C", Security.account());
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    took(message);
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            fixture.start(consumer);
        }
    }

    private void send(long pause) {
        while (!ends.get()) {
            String label = "dead-" + number.incrementAndGet();
            while (!ends.get() && !sent(label)) {
                continue;
            }
            try {
                Thread.sleep(pause);
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    private boolean sent(String label) {
        try {
            SendResult result = producer.send(fixture.message(label, "TagA"));
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("answered " + result.getSendStatus());
            }
        } catch (Exception error) {
            synchronized (this) {
                failed++;
                if (errors.size() < ERRORS_MAX) {
                    errors.add(String.valueOf(error));
                }
            }
            return false;
        }
        synchronized (this) {
            acked++;
            acknowledged.add(label);
        }
        return true;
    }

    private synchronized void took(MessageExt message) {
        long now = System.currentTimeMillis();
        gap = Math.max(gap, now - lastAt);
        lastAt = now;
        late = Math.max(late, now - message.getStoreTimestamp());
        received++;
        if (delivered.add(message.getUserProperty("label"))) {
            distinct++;
        } else {
            doubled++;
        }
    }

    private synchronized int missing() {
        Set<String> rest = new HashSet<>(acknowledged);
        rest.removeAll(delivered);
        return rest.size();
    }

    private synchronized Map<String, Object> mark() {
        long now = System.currentTimeMillis();
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("began_ms", began);
        facts.put("acked", acked);
        facts.put("failed", failed);
        facts.put("received", received);
        facts.put("distinct", distinct);
        facts.put("doubled", doubled);
        facts.put("gap_ms", Math.max(gap, now - lastAt));
        facts.put("late_ms", late);
        facts.put("missing", missing());
        facts.put("errors", new ArrayList<Object>(errors));
        acked = failed = received = distinct = doubled = 0;
        gap = late = 0;
        errors.clear();
        return facts;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Fixture.prepare(arguments[0], arguments[1]);
        int members = arguments.length > 4 ? Integer.parseInt(arguments[4]) : 1;
        DeadConsumer run = new DeadConsumer(arguments[0], arguments[1], members);
        List<Thread> threads = new ArrayList<>();
        for (int count = Integer.parseInt(arguments[2]); count > 0; count--) {
            Thread thread = new Thread(() -> run.send(Long.parseLong(arguments[3])));
            thread.start();
            threads.add(thread);
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String order;
        while ((order = orders.readLine()) != null && !order.equals("stop")) {
            answers.println(Json.text(run.mark()));
        }
        run.ends.set(true);
        for (Thread thread : threads) {
            thread.join(5000);
        }
        Fixture.await(() -> run.missing() == 0, CATCH_UP_SECONDS_MAX);
        answers.println(Json.text(run.mark()));
        Runtime.getRuntime().halt(0);
    }
}
