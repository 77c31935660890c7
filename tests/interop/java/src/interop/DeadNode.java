package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;

/**
 * Sends with default settings, while somebody kills a leader for long.
 *
 * <pre>
 * java interop.DeadNode NAMESERVER TOPIC START_MS FILE sync THREADS PAUSE_MS
 * java interop.DeadNode NAMESERVER TOPIC START_MS FILE async IN_FLIGHT PAUSE_MS
 *   starts its client at START_MS; it looks at routes then, 30 s later, and so on
 *   sync: so many threads, each with that pause after a send
 *   async: one thread with that pause after a send, at most IN_FLIGHT without an answer
 *   stdin:   mark   one line: what happened since the mark before
 *            fast   the same; from now on without the pause
 *            slow   the same; from now on with it
 *            stop   no more sends; all are answered, or 20 s are over: the last line, and the end
 *   a line:  {"acked":n,"failed":n,"relayed":n,"gap_ms":longest,"gap_ended_at":time of day,
 *            "open":n,"twice":n,"errors":[…]}
 *            open: sends without an answer; twice: callbacks that were called again
 *   FILE:    the number of each message that was acknowledged, a line each; it is the body
 * </pre>
 */
public final class DeadNode {
    private static final int ERRORS_MAX = 5;

    private final AtomicBoolean ends = new AtomicBoolean();
    private final AtomicInteger number = new AtomicInteger();
    private final DefaultMQProducer producer;
    private final Fixture fixture;
    private final PrintWriter file;
    private final List<String> errors = new ArrayList<>();
    private volatile long pause;
    private int open;
    private int acked;
    private int failed;
    private int relayed;
    private int twice;
    private long lastAt = System.currentTimeMillis();
    private long gap;
    private LocalTime gapEndedAt = LocalTime.now();

    private DeadNode(String nameserver, String topic, String file, long pause) throws Exception {
        fixture = new Fixture(nameserver, topic);
        producer = fixture.started(new DefaultMQProducer(fixture.group("P"), Security.account()));
        this.file = new PrintWriter(file, "UTF-8");
        this.pause = pause;
    }

    private void sendOneByOne() {
        while (!ends.get()) {
            int now = began();
            try {
                went(now, producer.send(fixture.message(String.valueOf(now), "TagA")));
            } catch (Exception error) {
                went(error);
            }
            rest();
        }
    }

    private void sendMany(Semaphore room) {
        while (!ends.get()) {
            room.acquireUninterruptibly();
            int now = began();
            SendCallback callback = callback(now, room);
            try {
                producer.send(fixture.message(String.valueOf(now), "TagA"), callback);
            } catch (Exception error) {
                callback.onException(error);
            }
            rest();
        }
    }

    private SendCallback callback(int now, Semaphore room) {
        AtomicBoolean called = new AtomicBoolean();
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (first()) {
                    went(now, result);
                    room.release();
                }
            }

            @Override
            public void onException(Throwable error) {
                if (first()) {
                    went(error);
                    room.release();
                }
            }

            private boolean first() {
                boolean is = called.compareAndSet(false, true);
                if (!is) {
                    calledAgain();
                }
                return is;
            }
        };
    }

    private void rest() {
        try {
            if (pause > 0) {
                Thread.sleep(pause);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized int began() {
        open++;
        return number.incrementAndGet();
    }

    private synchronized void calledAgain() {
        twice++;
    }

    private synchronized void went(int which, SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            went(new IllegalStateException("answered " + result.getSendStatus()));
            return;
        }
        long now = System.currentTimeMillis();
        if (now - lastAt > gap) {
            gap = now - lastAt;
            gapEndedAt = LocalTime.now();
        }
        lastAt = now;
        open--;
        acked++;
        relayed += result.getMessageQueue().getBrokerName().startsWith("~") ? 1 : 0;
        file.println(which);
    }

    private synchronized void went(Throwable error) {
        open--;
        failed++;
        if (errors.size() < ERRORS_MAX) {
            errors.add(LocalTime.now() + " " + error + " <- " + error.getCause());
        }
    }

    private synchronized Map<String, Object> mark() {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("acked", acked);
        facts.put("failed", failed);
        facts.put("relayed", relayed);
        facts.put("gap_ms", Math.max(gap, System.currentTimeMillis() - lastAt));
        facts.put("gap_ended_at", gapEndedAt.toString());
        facts.put("open", open);
        facts.put("twice", twice);
        facts.put("errors", new ArrayList<Object>(errors));
        acked = failed = relayed = twice = 0;
        gap = 0;
        errors.clear();
        file.flush();
        return facts;
    }

    private synchronized boolean isAnswered() {
        return open == 0;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Fixture.prepare(arguments[0], arguments[1]);
        Thread.sleep(Math.max(0, Long.parseLong(arguments[2]) - System.currentTimeMillis()));
        long pause = Long.parseLong(arguments[6]);
        DeadNode run = new DeadNode(arguments[0], arguments[1], arguments[3], pause);
        int count = Integer.parseInt(arguments[5]);
        if (arguments[4].equals("async")) {
            Semaphore room = new Semaphore(count);
            new Thread(() -> run.sendMany(room)).start();
        } else {
            for (int thread = 0; thread < count; thread++) {
                new Thread(run::sendOneByOne).start();
            }
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String order;
        while ((order = orders.readLine()) != null && !order.equals("stop")) {
            if (!order.equals("mark")) {
                run.pause = order.equals("fast") ? 0 : pause;
            }
            answers.println(Json.text(run.mark()));
        }
        run.ends.set(true);
        Fixture.await(run::isAnswered, 20);
        answers.println(Json.text(run.mark()));
        Runtime.getRuntime().halt(0);
    }
}
