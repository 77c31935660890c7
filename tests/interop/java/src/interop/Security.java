package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.RPCHook;

/** TLS on the client port, and accounts: names and secrets come from the harness. */
final class Security {
    private Security() {
    }

    static void tls(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.own(new DefaultMQProducer(fixture.group("P")));
        producer.setUseTLS(true);
        producer.start();
        fixture.closeLater(producer::shutdown);
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.setUseTLS(true);
        exchange(fixture, facts, producer, consumer);
    }

    private static void exchange(
            Fixture fixture, Map<String, Object> facts, DefaultMQProducer producer, DefaultMQPushConsumer consumer)
            throws Exception {
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            String label = "safe-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
        List<Map<String, Object>> found = Fixture.list();
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener(Pushes.into(found));
        fixture.start(consumer);
        Fixture.settle(() -> found.size() >= 10);
        facts.put("sent", sent);
        facts.put("received", Pushes.copy(found));
    }

    /** Accounts by system property: acl.key and acl.secret may all here, acl.reader only read. */
    static void acl(Fixture fixture, Map<String, Object> facts) throws Exception {
        RPCHook full = account();
        RPCHook wrong = hook(System.getProperty("acl.key"), "not-the-secret");
        RPCHook reader = hook(System.getProperty("acl.reader"), System.getProperty("acl.readerSecret"));
        Map<String, Object> refused = new LinkedHashMap<>();
        refused.put("wrong secret", refusal(fixture, wrong));
        refused.put("unknown account", refusal(fixture, hook("nobody", "nothing-at-all")));
        refused.put("without", refusal(fixture, null));
        refused.put("only reads", refusal(fixture, reader));
        facts.put("refused", refused);
        DefaultMQProducer producer = fixture.started(new DefaultMQProducer(fixture.group("P"), full));
        exchange(fixture, facts, producer, fixture.pushConsumer("C", reader));
    }

    /** Signs as acl.key, or null without it. */
    static RPCHook account() {
        String key = System.getProperty("acl.key");
        return key == null ? null : hook(key, System.getProperty("acl.secret"));
    }

    private static RPCHook hook(String key, String secret) {
        return new AclClientRPCHook(new SessionCredentials(key, secret));
    }

    /** The code with which a send is refused, or what else became of it. */
    private static Object refusal(Fixture fixture, RPCHook hook) throws Exception {
        DefaultMQProducer producer = fixture.started(new DefaultMQProducer(fixture.group("X"), hook));
        producer.setRetryTimesWhenSendFailed(0);
        try {
            return "sent: " + producer.send(fixture.message("refused", "TagA")).getSendStatus();
        } catch (MQBrokerException error) {
            return error.getResponseCode();
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return String.valueOf(cause);
        }
    }
}
