'use strict';
// A producer and a consumer with an account, while somebody kills leaders.
//
//   failover.js NAMESERVER TOPIC SENDS_PER_SECOND KEY SECRET
//     stdin:  mark   one line {"sent":n,"acked":n,"failed":n,"received":n}
//             stop   the last line, with everything; the program ends

const readline = require('readline');
const { Producer, Consumer, Message } = require('ali-ons');

const CATCH_UP_MS_MAX = 45000; // the consumer looks for the new address of a broker every 30 s
const logger = { info() {}, debug() {}, warn() {}, error() {} };
const [nameSrv, topic, perSecond, accessKeyId, accessKeySecret] = process.argv.slice(2);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const acks = [];
const failures = [];
const received = new Set();
let sent = 0;
let over = false;

const options = (instanceName) => ({
  nameSrv,
  accessKeyId,
  accessKeySecret,
  instanceName,
  logger,
  httpclient: { request: () => Promise.reject(new Error('no HTTP here')) },
});

async function started(client) {
  client.on('error', (error) => process.stderr.write(`${error}\n`));
  await client.ready();
  return client;
}

async function send(producer) {
  while (!over) {
    sent += 1;
    const label = `kill-${sent}`;
    const message = new Message(topic, 'TagA', label);
    message.properties.label = label;
    try {
      await producer.send(message);
      acks.push({ label, id: label });
    } catch (error) {
      failures.push({ label, error: String(error) });
    }
    await sleep(1000 / Number(perSecond));
  }
}

// Told when it is written: the last line is more than a pipe takes at once.
const say = (facts) =>
  new Promise((resolve) => process.stdout.write(`${JSON.stringify(facts)}\n`, resolve));
const counts = () => ({
  sent,
  acked: acks.length,
  failed: failures.length,
  received: received.size,
});

async function main() {
  const consumer = new Consumer({
    ...options('consumes'),
    consumerGroup: `G_${topic}_C`,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  consumer.subscribe(topic, '*', async (message) => {
    received.add(message.properties.label);
  });
  await started(consumer);
  const producer = new Producer({ ...options('sends'), producerGroup: `G_${topic}_P` });
  const sending = send(await started(producer));
  for await (const order of readline.createInterface({ input: process.stdin })) {
    if (order === 'stop') break;
    await say(counts());
  }
  over = true;
  await sending;
  const end = Date.now() + CATCH_UP_MS_MAX;
  while (!acks.every(({ label }) => received.has(label)) && Date.now() < end) await sleep(20);
  await say({ ...counts(), acks, failures, received_ids: [...received] });
  process.exit(0);
}

main();
