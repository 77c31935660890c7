package peers;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Orders of `scripts/bench messages`, a line each, to one client; each is answered with a line of
 * JSON. tests/peers/README.md lists them.
 */
abstract class Load {
    /** Messages in one batch of the mode "batches". */
    static final int BATCH = 32;
    private static final int BODIES = 4096;
    private static final int LATENCIES_MAX = 1 << 23;
    private static final int FILL_WINDOW = 1024;

    /** What a window of sends found. */
    static final class Meter {
        final Semaphore free;
        final AtomicInteger failed = new AtomicInteger();
        volatile String error = "";
        private final int perAnswer;
        private final long[] nanos = new long[LATENCIES_MAX];
        private final AtomicInteger answered = new AtomicInteger();

        Meter(int window, int perAnswer) {
            free = new Semaphore(window);
            this.perAnswer = perAnswer;
        }

        void acknowledged(long sentAt) {
            nanos[answered.getAndIncrement() % LATENCIES_MAX] = System.nanoTime() - sentAt;
            free.release();
        }

        void failed(Object why) {
            failed.addAndGet(perAnswer);
            error = String.valueOf(why);
            free.release();
        }

        private double millis(double share) {
            int count = Math.min(answered.get(), LATENCIES_MAX);
            if (count == 0) {
                return 0;
            }
            long[] sorted = Arrays.copyOf(nanos, count);
            Arrays.sort(sorted);
            return sorted[Math.min(count - 1, (int) (share * count))] / 1e6;
        }

        String told(double seconds) {
            return String.format(
                    Locale.ROOT,
                    "{\"acked\":%d,\"failed\":%d,\"seconds\":%.6f,\"p50_ms\":%.4f,\"p99_ms\":%.4f,"
                            + "\"error\":%s}",
                    (long) answered.get() * perAnswer, failed.get(), seconds, millis(0.5),
                    millis(0.99), quoted(error));
        }
    }

    /** What the application reads: the clock runs from the first message to the last. */
    static final class Reading {
        private final int wanted;
        private final Semaphore all = new Semaphore(0);
        private final AtomicInteger seen = new AtomicInteger();
        private final AtomicLong bytes = new AtomicLong();
        private final AtomicLong first = new AtomicLong();
        private volatile long last;

        Reading(int wanted) {
            this.wanted = wanted;
        }

        void read(byte[] body, String key, long offset) {
            first.compareAndSet(0, System.nanoTime());
            if (key == null || key.isEmpty() || offset < 0) {
                throw new IllegalStateException("a message without a key or an offset");
            }
            bytes.addAndGet(body.length);
            if (seen.incrementAndGet() == wanted) {
                last = System.nanoTime();
                all.release();
            }
        }

        boolean isComplete() {
            return seen.get() >= wanted;
        }

        void await() throws Exception {
            if (!all.tryAcquire(300, TimeUnit.SECONDS)) {
                throw new IllegalStateException(seen.get() + " of " + wanted + " came in 300 s");
            }
        }

        String told() {
            return String.format(
                    Locale.ROOT, "{\"messages\":%d,\"bytes\":%d,\"seconds\":%.6f}", seen.get(),
                    bytes.get(), (last - first.get()) / 1e9);
        }
    }

    /** Reach the servers, make the topic where the harness does not, and get one acknowledgement. */
    abstract void open(String address, String topic, int queues) throws Exception;

    /** One message; `key` may be null. */
    abstract void send(String topic, byte[] body, String key, int window, Meter meter)
            throws Exception;

    /** BATCH messages in one request. */
    abstract void batch(String topic, byte[][] bodies, int from, Meter meter) throws Exception;

    abstract void consume(String topic, Reading reading) throws Exception;

    private String sends(String mode, String topic, int window, int size, long millis)
            throws Exception {
        boolean batches = mode.equals("batches");
        Meter meter = new Meter(window, batches ? BATCH : 1);
        byte[][] bodies = bodies(size);
        long began = System.nanoTime();
        long until = began + TimeUnit.MILLISECONDS.toNanos(millis);
        for (int at = 0; System.nanoTime() < until; at += batches ? BATCH : 1) {
            meter.free.acquire();
            try {
                if (batches) {
                    batch(topic, bodies, at % BODIES, meter);
                } else {
                    send(topic, bodies[at % BODIES], null, window, meter);
                }
            } catch (Exception error) { // it was refused at once
                meter.failed(error);
            }
        }
        meter.free.acquire(window);
        return meter.told((System.nanoTime() - began) / 1e9);
    }

    private String fill(String topic, int count, int size) throws Exception {
        Meter meter = new Meter(FILL_WINDOW, 1);
        byte[][] bodies = bodies(size);
        long began = System.nanoTime();
        for (int at = 0; at < count; at++) {
            meter.free.acquire();
            send(topic, bodies[at % BODIES], "key-" + at, FILL_WINDOW, meter);
        }
        meter.free.acquire(FILL_WINDOW);
        return meter.told((System.nanoTime() - began) / 1e9);
    }

    private static byte[][] bodies(int size) {
        Random random = new Random();
        byte[][] made = new byte[BODIES][size];
        for (byte[] body : made) {
            random.nextBytes(body);
        }
        return made;
    }

    private static String quoted(String text) {
        return '"' + text.replaceAll("[^ !#-\\[\\]-~]", " ") + '"';
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                open(words[1], words[2], Integer.parseInt(words[3]));
                return "{}";
            case "send":
                return sends(words[1], words[2], Integer.parseInt(words[3]),
                        Integer.parseInt(words[4]), Long.parseLong(words[5]));
            case "fill":
                return fill(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "consume":
                Reading reading = new Reading(Integer.parseInt(words[3]));
                consume(words[2], reading);
                return reading.told();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Answer orders until "stop" or the end of the input. */
    final void serve() throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        answers.println("{}");
        String order;
        while ((order = orders.readLine()) != null && !order.equals("stop")) {
            try {
                answers.println(answer(order.split(" ")));
            } catch (Exception error) {
                error.printStackTrace();
                answers.println("{\"error\":" + quoted(String.valueOf(error)) + "}");
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
