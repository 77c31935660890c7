package interop;

import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Opens a store with the broker's own classes and reads every message of every queue.
 *
 * <pre>
 * java interop.StoreReader ROOT COMMITLOG_FILE QUEUE_FILE BATCH_FILE INDEX_SLOTS INDEX_ENTRIES
 *                          [NODE PORT]
 * </pre>
 *
 * With NODE and PORT in DLedger mode. One JSON line: the messages as they are stored (bodies are not
 * decompressed), in order of topic, queue and offset; those without a queue are not seen. For every
 * message with a key, whether a query for its first key finds it.
 */
public final class StoreReader {
    private static final String GROUP = "interop";
    private static final int AT_ONCE = 32;
    private static final long READY_MILLIS_MAX = 30_000;

    private StoreReader() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("scenario", "read");
        try {
            read(arguments, facts);
        } catch (Throwable error) {
            error.printStackTrace();
            facts.put("error", String.valueOf(error));
        }
        answers.println(Json.text(facts));
        answers.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void read(String[] arguments, Map<String, Object> facts) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(arguments[0]);
        config.setStorePathCommitLog(arguments[0] + "/commitlog");
        config.setMappedFileSizeCommitLog(Integer.parseInt(arguments[1]));
        config.setMappedFileSizeConsumeQueue(Integer.parseInt(arguments[2]));
        config.setMapperFileSizeBatchConsumeQueue(Integer.parseInt(arguments[3]));
        config.setMaxHashSlotNum(Integer.parseInt(arguments[4]));
        config.setMaxIndexNum(Integer.parseInt(arguments[5]));
        config.setHaListenPort(0);
        config.setFileReservedTime(1_000_000); // nothing is cleaned while it is read
        config.setTimerWheelEnable(false);
        if (arguments.length > 6) {
            config.setEnableDLegerCommitLog(true);
            config.setdLegerGroup("exported");
            config.setdLegerSelfId(arguments[6]);
            config.setdLegerPeers(arguments[6] + "-127.0.0.1:" + arguments[7]);
        }
        BrokerConfig broker = new BrokerConfig();
        broker.setEnableControllerMode(false);
        DefaultMessageStore store = new DefaultMessageStore(config,
                new BrokerStatsManager("interop", false),
                (topic, queue, offset, tags, time, bits, properties) -> {
                }, broker, batchTopics(new File(arguments[0], "batchconsumequeue")));
        if (!store.load()) {
            throw new IllegalStateException("the broker's store refuses to load " + arguments[0]);
        }
        store.start();
        long end = System.currentTimeMillis() + READY_MILLIS_MAX;
        while (store.dispatchBehindBytes() > 0) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException(store.dispatchBehindBytes() + " bytes are not dispatched");
            }
            Thread.sleep(20);
        }
        List<Object> messages = new ArrayList<>();
        Map<String, Map<Integer, ConsumeQueueInterface>> topics = new TreeMap<>(store.getConsumeQueueTable());
        for (String topic : topics.keySet()) {
            for (int queue : new TreeMap<>(topics.get(topic)).keySet()) {
                queue(store, topic, queue, messages);
            }
        }
        facts.put("messages", messages);
        facts.put("maxPhysicalOffset", store.getMaxPhyOffset());
    }

    /** What the broker would know from its topics.json: their queues have another kind of file. */
    private static ConcurrentMap<String, TopicConfig> batchTopics(File folder) {
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        String[] names = folder.list();
        for (String name : names == null ? new String[0] : names) {
            TopicConfig topic = new TopicConfig(name);
            topic.setAttributes(Collections.singletonMap("queue.type", "BatchCQ"));
            topics.put(name, topic);
        }
        return topics;
    }

    private static void queue(DefaultMessageStore store, String topic, int queue, List<Object> messages)
            throws Exception {
        long offset = store.getMinOffsetInQueue(topic, queue);
        long end = store.getMaxOffsetInQueue(topic, queue);
        while (offset < end) {
            GetMessageResult found = store.getMessage(GROUP, topic, queue, offset, AT_ONCE, null);
            if (found == null || found.getMessageMapedList().isEmpty()) {
                throw new IllegalStateException(topic + "/" + queue + " at " + offset + " of " + end
                        + ": " + (found == null ? "nothing" : String.valueOf(found.getStatus())));
            }
            for (SelectMappedBufferResult piece : found.getMessageMapedList()) {
                messages.add(message(store, piece.getByteBuffer()));
            }
            offset = found.getNextBeginOffset();
            found.release();
        }
    }

    private static Map<String, Object> message(DefaultMessageStore store, ByteBuffer buffer) {
        MessageExt read = MessageDecoder.decode(buffer, true, false);
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("topic", read.getTopic());
        facts.put("queueId", read.getQueueId());
        facts.put("queueOffset", read.getQueueOffset());
        facts.put("body", hex(read.getBody()));
        Map<String, String> properties = read.getProperties(); // null when there is none
        facts.put("properties", properties == null ? new TreeMap<>() : new TreeMap<>(properties));
        facts.put("flag", read.getFlag());
        facts.put("sysFlag", read.getSysFlag());
        facts.put("born", read.getBornTimestamp());
        facts.put("stored", read.getStoreTimestamp());
        facts.put("bornHost", host((InetSocketAddress) read.getBornHost()));
        facts.put("storeHost", host((InetSocketAddress) read.getStoreHost()));
        facts.put("reconsumeTimes", read.getReconsumeTimes());
        facts.put("physicalOffset", read.getCommitLogOffset());
        String keys = read.getKeys();
        if (keys != null && !keys.trim().isEmpty()) {
            facts.put("foundByKey", isFound(store, read, keys.trim().split(" ")[0]));
        }
        return facts;
    }

    private static boolean isFound(DefaultMessageStore store, MessageExt wanted, String key) {
        QueryMessageResult found = store.queryMessage(wanted.getTopic(), key, 1000, 0, Long.MAX_VALUE);
        boolean there = false;
        for (SelectMappedBufferResult piece : found.getMessageMapedList()) {
            there |= piece.getStartOffset() == wanted.getCommitLogOffset();
        }
        found.release();
        return there;
    }

    private static String host(InetSocketAddress address) {
        return address.getAddress().getHostAddress() + ":" + address.getPort();
    }

    private static String hex(byte[] data) {
        StringBuilder text = new StringBuilder();
        for (byte one : data == null ? new byte[0] : data) {
            text.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        return text.toString();
    }
}
