package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Half messages that become visible on commit, never on rollback, or when the broker asks. */
final class Transactions {
    private Transactions() {
    }

    /** Decides by the label: commit-*, rollback-*, unknown-commit-*, unknown-rollback-*. */
    private static final class ByLabel implements TransactionListener {
        final List<Object> checked = Fixture.list();

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            String label = message.getUserProperty("label");
            if (label.startsWith("unknown")) {
                return LocalTransactionState.UNKNOW;
            }
            return decision(label);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            Map<String, Object> one = Fixture.received(message);
            one.put("topic", message.getTopic());
            one.put("transaction_id", message.getTransactionId());
            checked.add(one);
            return decision(message.getUserProperty("label").replace("unknown-", ""));
        }

        private static LocalTransactionState decision(String label) {
            return label.startsWith("commit") ? LocalTransactionState.COMMIT_MESSAGE
                    : LocalTransactionState.ROLLBACK_MESSAGE;
        }
    }

    static void commitAndRollback(Fixture fixture, Map<String, Object> facts) throws Exception {
        run(fixture, facts, new String[] {"commit", "rollback"}, 10);
    }

    static void checkBack(Fixture fixture, Map<String, Object> facts) throws Exception {
        run(fixture, facts, new String[] {"unknown-commit", "unknown-rollback"}, 3);
    }

    private static void run(Fixture fixture, Map<String, Object> facts, String[] kinds, int count)
            throws Exception {
        ByLabel listener = new ByLabel();
        TransactionMQProducer producer = new TransactionMQProducer(fixture.group("P"));
        producer.setTransactionListener(listener);
        fixture.started(producer);
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener(Pushes.into(found));
        fixture.start(consumer);
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            for (String kind : kinds) {
                String label = kind + "-" + number;
                Message message = fixture.message(label, "TagA");
                message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "2");
                sent.add(Fixture.sent(label, producer.sendMessageInTransaction(message, null)));
            }
        }
        boolean asked = kinds[0].startsWith("unknown");
        Fixture.settle(() -> found.size() >= count && (!asked || listener.checked.size() >= 2 * count));
        facts.put("sent", sent);
        facts.put("checked", Pushes.copy(listener.checked));
        facts.put("received", Pushes.copy(found));
    }
}
