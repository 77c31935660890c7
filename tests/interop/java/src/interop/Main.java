package interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Runs named scenarios against a cluster with the client that is on the class path.
 *
 * <pre>
 * java interop.Main NAMESERVER PREFIX SCENARIO...   one JSON line per scenario on stdout
 * </pre>
 *
 * Scenarios say what they saw; whether that is right is judged by the harness that started this.
 * They run beside each other (most of them wait), each on a topic of its own: PREFIX_scenario.
 */
public final class Main {
    /** Scenarios at once: most wait for a delay or for a rebalance. */
    private static final int THREADS = 6;
    private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("send_sync", Sends::sync);
        SCENARIOS.put("send_async", Sends::async);
        SCENARIOS.put("send_oneway", Sends::oneway);
        SCENARIOS.put("send_batch", Sends::batch);
        SCENARIOS.put("auto_create", Sends::toUnknownTopic);
        SCENARIOS.put("push_concurrent", Pushes::concurrent);
        SCENARIOS.put("push_orderly", Pushes::orderly);
        SCENARIOS.put("push_broadcast", Pushes::broadcast);
        SCENARIOS.put("group_progress", Pushes::progress);
        SCENARIOS.put("lite_pull", Pulls::subscribe);
        SCENARIOS.put("lite_pull_assign", Pulls::assign);
        SCENARIOS.put("tag_filter", Filters::tags);
        SCENARIOS.put("sql_filter", Filters::sql);
        SCENARIOS.put("retry_dlq", Retries::toDeadLetters);
        SCENARIOS.put("retry_levels", Retries::firstLevel);
        SCENARIOS.put("delay_levels", Delays::levels);
        SCENARIOS.put("timer", Delays::timer);
        SCENARIOS.put("recall", Delays::recall);
        SCENARIOS.put("transaction", Transactions::commitAndRollback);
        SCENARIOS.put("transaction_check", Transactions::checkBack);
        SCENARIOS.put("request_reply", Replies::request);
        SCENARIOS.put("trace", Traces::trace);
        SCENARIOS.put("query", Queries::query);
        SCENARIOS.put("pop", since5("push"));
        SCENARIOS.put("pop_calls", since5("calls"));
        SCENARIOS.put("tls", Security::tls);
        SCENARIOS.put("acl", Security::acl);
        SCENARIOS.put("quota", Quota::quota);
    }

    private Main() {
    }

    /** A scenario of `Pops`, which is compiled with clients from 5.0 on only (src5). */
    private static Scenario since5(String name) {
        return (fixture, facts) -> Class.forName("interop.Pops")
                .getDeclaredMethod(name, Fixture.class, Map.class).invoke(null, fixture, facts);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err); // what the client library prints is no answer
        String nameserver = arguments[0];
        String prefix = arguments[1];
        List<String> names = Arrays.asList(arguments).subList(2, arguments.length);
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        for (String name : names) {
            pool.execute(() -> answer(answers, name, new Fixture(nameserver, prefix + "_" + name)));
        }
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.MINUTES);
        answers.flush();
        Runtime.getRuntime().halt(0); // threads of the client library may outlive its shutdown
    }

    private static void answer(PrintStream answers, String name, Fixture fixture) {
        Map<String, Object> facts = new LinkedHashMap<>();
        long began = System.nanoTime();
        facts.put("scenario", name);
        try {
            Scenario scenario = SCENARIOS.get(name);
            if (scenario == null) {
                throw new IllegalArgumentException("there is no scenario " + name);
            }
            scenario.run(fixture, facts);
        } catch (Throwable error) {
            facts.put("error", String.valueOf(error));
            List<String> stack = new ArrayList<>();
            for (StackTraceElement element : error.getStackTrace()) {
                stack.add(element.toString());
            }
            facts.put("stack", stack.subList(0, Math.min(stack.size(), 12)));
        } finally {
            fixture.close();
        }
        facts.put("seconds", (System.nanoTime() - began) / 1e9);
        String line = Json.text(facts);
        synchronized (answers) {
            answers.println(line);
        }
    }
}
