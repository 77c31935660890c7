package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;

/**
 * Threads that send synchronously with default settings, while somebody kills a leader for long.
 *
 * <pre>
 * java interop.DeadNode NAMESERVER TOPIC THREADS PAUSE_MS
 *   stdin:   mark   one line: what happened since the mark before
 *            stop   the last one; the program ends
 *   a line:  {"began_ms":t,"acked":n,"failed":n,"through_relays":n,"gap_ms":longest,"errors":[…]}
 *            the client looks at routes at t, t + 30 s, t + 60 s and so on
 * </pre>
 */
public final class DeadNode {
    private static final int ERRORS_MAX = 5;

    private final AtomicBoolean ends = new AtomicBoolean();
    private final AtomicInteger number = new AtomicInteger();
    private final DefaultMQProducer producer;
    private final Fixture fixture;
    private final long began;
    private final List<String> errors = new ArrayList<>();
    private int acked;
    private int failed;
    private int throughRelays;
    private long lastAt = System.currentTimeMillis();
    private long gap;

    private DeadNode(String nameserver, String topic) throws Exception {
        fixture = new Fixture(nameserver, topic);
        began = System.currentTimeMillis();
        producer = fixture.started(new DefaultMQProducer(fixture.group("P"), Security.account()));
    }

    private void send(long pause) {
        while (!ends.get()) {
            try {
                SendResult result = producer.send(fixture.message("dead-" + number.incrementAndGet(), "TagA"));
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    throw new IllegalStateException("answered " + result.getSendStatus());
                }
                done(result.getMessageQueue().getBrokerName().startsWith("~"));
                Thread.sleep(pause);
            } catch (Exception error) {
                went(String.valueOf(error));
            }
        }
    }

    private synchronized void done(boolean relayed) {
        long now = System.currentTimeMillis();
        gap = Math.max(gap, now - lastAt);
        lastAt = now;
        acked++;
        throughRelays += relayed ? 1 : 0;
    }

    private synchronized void went(String error) {
        failed++;
        if (errors.size() < ERRORS_MAX) {
            errors.add(error);
        }
    }

    private synchronized Map<String, Object> mark() {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("began_ms", began);
        facts.put("acked", acked);
        facts.put("failed", failed);
        facts.put("through_relays", throughRelays);
        facts.put("gap_ms", Math.max(gap, System.currentTimeMillis() - lastAt));
        facts.put("errors", new ArrayList<Object>(errors));
        acked = failed = throughRelays = 0;
        gap = 0;
        errors.clear();
        return facts;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        DeadNode run = new DeadNode(arguments[0], arguments[1]);
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
        answers.println(Json.text(run.mark()));
        Runtime.getRuntime().halt(0);
    }
}
