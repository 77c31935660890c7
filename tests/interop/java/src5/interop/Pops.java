package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.constant.ConsumeInitMode;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Pop consumption, which clients have since 5.0: by a push consumer, and call by call. */
final class Pops {
    private static final int COUNT = 40;
    private static final long CALL_MILLIS = 5_000;

    private Pops() {
    }

    /** A push consumer that leaves its queues to the broker; two messages are refused once. */
    static void push(Fixture fixture, Map<String, Object> facts) throws Exception {
        popMode(fixture, fixture.group("C"));
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        send(fixture, producer, sent, 0, COUNT / 2);
        List<Map<String, Object>> found = Fixture.list();
        Set<String> refused = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.setClientRebalance(false);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean bad = false;
            for (MessageExt message : messages) {
                found.add(Fixture.received(message));
                String label = message.getUserProperty("label");
                bad |= ("pop-3".equals(label) || "pop-7".equals(label)) && refused.add(label);
            }
            return bad ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        fixture.start(consumer);
        Fixture.await(() -> found.size() >= COUNT / 2, 40);
        send(fixture, producer, sent, COUNT / 2, COUNT);
        Fixture.settle(() -> found.size() >= COUNT + 2);
        facts.put("sent", sent);
        facts.put("refused", new ArrayList<>(refused));
        facts.put("received", Pushes.copy(found));
    }

    private static void popMode(Fixture fixture, String group) throws Exception {
        DefaultMQAdminExt admin = fixture.own(new DefaultMQAdminExt());
        admin.start();
        fixture.closeLater(admin::shutdown);
        for (BrokerData broker : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            admin.setMessageRequestMode(broker.getBrokerAddrs().get(0L), fixture.topic, group,
                    MessageRequestMode.POP, 0, CALL_MILLIS);
        }
    }

    private static void send(
            Fixture fixture, DefaultMQProducer producer, List<Object> sent, int from, int to)
            throws Exception {
        for (int number = from; number < to; number++) {
            String label = "pop-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
    }

    /** Six messages: one acknowledged, two in a batch, one hidden for a second, two left alone. */
    static void calls(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        send(fixture, producer, sent, 0, 6);
        MQClientInstance factory = producer.getDefaultMQProducerImpl().getMqClientFactory();
        Calls calls = new Calls(fixture, factory);
        List<MessageExt> first = new ArrayList<>();
        while (first.size() < 6) {
            first.addAll(calls.pop(4_000, 2_000));
        }
        List<Object> answers = new ArrayList<>();
        answers.add(calls.ack(first.get(0)));
        answers.add(calls.batchAck(first.subList(1, 3)));
        answers.add(calls.hide(first.get(3), 1_000));
        List<Object> again = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
        while (again.size() < 3 && System.nanoTime() < end) {
            for (MessageExt message : calls.pop(60_000, 1_000)) {
                again.add(facts(message));
                answers.add(calls.ack(message));
            }
        }
        facts.put("sent", sent);
        facts.put("first", new ArrayList<Object>());
        for (MessageExt message : first) {
            ((List<Object>) facts.get("first")).add(facts(message));
        }
        facts.put("again", again);
        facts.put("answers", answers);
        facts.put("last", calls.pop(60_000, 3_000).size());
    }

    private static Map<String, Object> facts(MessageExt message) {
        Map<String, Object> facts = Fixture.received(message);
        facts.put("handle", message.getProperty(MessageConst.PROPERTY_POP_CK));
        facts.put("first_pop", message.getProperty(MessageConst.PROPERTY_FIRST_POP_TIME));
        facts.put("topic", message.getTopic());
        return facts;
    }

    /** The calls of the client library, made as its consumers make them. */
    private static final class Calls {
        private final String topic;
        private final String group;
        private final String broker;
        private final String address;
        private final MQClientAPIImpl api;

        Calls(Fixture fixture, MQClientInstance factory) throws Exception {
            topic = fixture.topic;
            group = fixture.group("K");
            api = factory.getMQClientAPIImpl();
            BrokerData data = api.getTopicRouteInfoFromNameServer(topic, CALL_MILLIS)
                    .getBrokerDatas().get(0);
            broker = data.getBrokerName();
            address = data.getBrokerAddrs().get(0L);
        }

        List<MessageExt> pop(long invisible, long poll) throws Exception {
            PopMessageRequestHeader header = new PopMessageRequestHeader();
            header.setConsumerGroup(group);
            header.setTopic(topic);
            header.setQueueId(-1);
            header.setMaxMsgNums(32);
            header.setInvisibleTime(invisible);
            header.setPollTime(poll);
            header.setBornTime(System.currentTimeMillis());
            header.setInitMode(ConsumeInitMode.MIN);
            header.setExpType("TAG");
            header.setExp("*");
            header.setOrder(false);
            header.setBrokerName(broker);
            CompletableFuture<PopResult> future = new CompletableFuture<>();
            api.popMessageAsync(broker, address, header, poll + CALL_MILLIS, new PopCallback() {
                @Override
                public void onSuccess(PopResult result) {
                    future.complete(result);
                }

                @Override
                public void onException(Throwable error) {
                    future.completeExceptionally(error);
                }
            });
            PopResult result = future.get(poll + CALL_MILLIS, TimeUnit.MILLISECONDS);
            return result.getPopStatus() == PopStatus.FOUND
                    ? result.getMsgFoundList() : new ArrayList<>();
        }

        String ack(MessageExt message) throws Exception {
            String handle = message.getProperty(MessageConst.PROPERTY_POP_CK);
            String[] parts = ExtraInfoUtil.split(handle);
            AckMessageRequestHeader header = new AckMessageRequestHeader();
            header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
            header.setConsumerGroup(group);
            header.setQueueId(ExtraInfoUtil.getQueueId(parts));
            header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
            header.setExtraInfo(handle);
            header.setBrokerName(broker);
            Answer answer = new Answer();
            api.ackMessageAsync(address, CALL_MILLIS, answer, header);
            return answer.status();
        }

        String batchAck(List<MessageExt> messages) throws Exception {
            List<String> handles = new ArrayList<>();
            for (MessageExt message : messages) {
                handles.add(message.getProperty(MessageConst.PROPERTY_POP_CK));
            }
            Answer answer = new Answer();
            api.batchAckMessageAsync(address, CALL_MILLIS, answer, topic, group, handles);
            return answer.status();
        }

        String hide(MessageExt message, long millis) throws Exception {
            String handle = message.getProperty(MessageConst.PROPERTY_POP_CK);
            String[] parts = ExtraInfoUtil.split(handle);
            ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
            header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
            header.setConsumerGroup(group);
            header.setQueueId(ExtraInfoUtil.getQueueId(parts));
            header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
            header.setExtraInfo(handle);
            header.setInvisibleTime(millis);
            header.setBrokerName(broker);
            Answer answer = new Answer();
            api.changeInvisibleTimeAsync(broker, address, header, CALL_MILLIS, answer);
            return answer.status();
        }
    }

    private static final class Answer implements AckCallback {
        private final CompletableFuture<AckResult> future = new CompletableFuture<>();

        @Override
        public void onSuccess(AckResult result) {
            future.complete(result);
        }

        @Override
        public void onException(Throwable error) {
            future.completeExceptionally(error);
        }

        String status() throws Exception {
            return future.get(CALL_MILLIS, TimeUnit.MILLISECONDS).getStatus().name();
        }
    }
}
