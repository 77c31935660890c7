'use strict';
// Runs named scenarios against a cluster with the Node client (npm ali-ons).
//
//   client.js NAMESERVER PREFIX SCENARIO...   one JSON line per scenario on stdout
//
// Scenarios say what they saw; the harness that started this judges it. The client always signs
// its requests, so it is given some account. Topics exist before it starts: it never creates one.

const { Producer, Consumer, Message } = require('ali-ons');

const WAIT_MS_MAX = 60000;
// The library asks for a logger; what it says is no answer.
const logger = { info() {}, debug() {}, warn() {}, error() {} };
let instances = 0;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function settle(done) {
  const end = Date.now() + WAIT_MS_MAX;
  while (!done() && Date.now() < end) await sleep(20);
  await sleep(700); // so that something twice or too much is seen
}

class Fixture {
  constructor(nameserver, topic) {
    this.nameserver = nameserver;
    this.topic = topic;
    this.open = [];
  }

  options() {
    instances += 1;
    return {
      nameSrv: this.nameserver,
      accessKeyId: 'interop',
      accessKeySecret: 'interop-secret',
      instanceName: `n${instances}`,
      logger,
      // Asked for addresses where no name server is given: never here.
      httpclient: { request: () => Promise.reject(new Error('no HTTP here')) },
    };
  }

  async started(client) {
    client.on('error', (error) => process.stderr.write(`${error}\n`));
    await client.ready();
    this.open.push(client);
    return client;
  }

  producer() {
    return this.started(new Producer({ ...this.options(), producerGroup: `G_${this.topic}_P` }));
  }

  async consume(expression, each, options = {}) {
    const consumer = new Consumer({
      ...this.options(),
      consumerGroup: `G_${this.topic}_C`,
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
      ...options,
    });
    consumer.subscribe(this.topic, expression, each);
    return this.started(consumer);
  }

  message(label, tag) {
    const message = new Message(this.topic, tag, label);
    message.keys = [`k-${label}`];
    message.properties.label = label;
    return message;
  }

  async sendSome(prefix, count, tags = ['TagA'], more = () => {}) {
    const producer = await this.producer();
    const sent = [];
    for (let number = 0; number < count; number++) {
      const message = this.message(`${prefix}-${number}`, tags[number % tags.length]);
      more(message, number);
      sent.push(sentFacts(`${prefix}-${number}`, await producer.send(message)));
    }
    return sent;
  }

  async close() {
    await Promise.race([
      Promise.all(this.open.map((client) => client.close().catch(() => {}))),
      sleep(3000),
    ]);
  }
}

function sentFacts(label, result) {
  return {
    label,
    status: result.sendStatus,
    offset_id: result.msgId,
    broker: result.messageQueue.brokerName,
    queue: Number(result.messageQueue.queueId),
    offset: Number(result.queueOffset),
  };
}

function receivedFacts(message) {
  return {
    label: message.properties.label,
    id: message.msgId,
    body: message.body.toString(),
    key: message.keys,
    tag: message.tags,
    broker: null, // the client does not say from where a message came
    queue: message.queueId,
    offset: Number(message.queueOffset),
    reconsumed: message.reconsumeTimes,
    born_ms: Number(message.bornTimestamp),
    stored_ms: Number(message.storeTimestamp),
    at_ms: Date.now(),
  };
}

async function push(fixture, facts, expression, tags, expected) {
  const sent = await fixture.sendSome('f', 30, tags, (message, number) => {
    message.properties.color = ['red', 'green', 'blue'][number % 3];
    message.properties.n = String(number);
  });
  const received = [];
  await fixture.consume(expression, async (message) => {
    received.push(receivedFacts(message));
  });
  await settle(() => received.length >= expected);
  Object.assign(facts, { sent, received });
}

const scenarios = {
  async send_sync(fixture, facts) {
    facts.sent = await fixture.sendSome('sync', 20);
  },

  async push_concurrent(fixture, facts) {
    await push(fixture, facts, '*', ['TagA'], 30);
  },

  async tag_filter(fixture, facts) {
    await push(fixture, facts, 'TagA || TagC', ['TagA', 'TagB', 'TagC'], 20);
  },

  async sql_filter(fixture, facts) {
    const wanted = { expressionType: 'SQL92', subString: "color = 'red' AND n BETWEEN 10 AND 20" };
    await push(fixture, facts, wanted, ['TagA', 'TagB', 'TagC'], 3);
  },

  async push_broadcast(fixture, facts) {
    const members = [[], []];
    for (const member of members) {
      const each = async (message) => {
        member.push(receivedFacts(message));
      };
      await fixture.consume('*', each, { isBroadcast: true });
    }
    await sleep(1500);
    facts.sent = await fixture.sendSome('push', 20);
    await settle(() => members.every((member) => member.length >= 20));
    [facts.first, facts.second] = members;
  },

  async retry(fixture, facts) {
    const sent = await fixture.sendSome('retry', 3);
    const received = [];
    await fixture.consume('*', async (message) => {
      received.push(receivedFacts(message));
      const refused = message.properties.label === 'retry-1' && message.reconsumeTimes < 1;
      return refused ? Consumer.ACTION_RETRY : undefined;
    });
    await settle(() => received.length >= 4);
    Object.assign(facts, { sent, received });
  },

  async delay_levels(fixture, facts) {
    const received = [];
    await fixture.consume('*', async (message) => {
      received.push(receivedFacts(message));
    });
    facts.sent = [];
    for (let level = 0; level <= 3; level++) {
      const more = (message) => {
        if (level) message.delayTimeLevel = level;
      };
      facts.sent.push(...(await fixture.sendSome(`level${level}`, 4, ['TagA'], more)));
    }
    await settle(() => received.length >= 16);
    facts.received = received;
  },
};

async function answer(nameserver, prefix, name) {
  const facts = { scenario: name };
  const began = Date.now();
  const fixture = new Fixture(nameserver, `${prefix}_${name}`);
  try {
    await scenarios[name](fixture, facts);
  } catch (error) {
    facts.error = String(error);
    facts.stack = String(error && error.stack).split('\n').slice(1, 8);
  }
  await fixture.close();
  facts.seconds = (Date.now() - began) / 1000;
  process.stdout.write(`${JSON.stringify(facts)}\n`);
}

const [nameserver, prefix, ...names] = process.argv.slice(2);
Promise.all(names.map((name) => answer(nameserver, prefix, name))).then(() => process.exit(0));
