'use strict';
// Sends, while somebody kills a leader for long; orders, lines and the file are DeadNode.java's.
//
//   dead_node.js NAMESERVER TOPIC START_MS FILE IN_FLIGHT PAUSE_MS
//     so many loops, each with that pause after a send

const fs = require('fs');
const readline = require('readline');
const { Producer, Message } = require('ali-ons');

const ERRORS_MAX = 5;
const logger = { info() {}, debug() {}, warn() {}, error() {} };
const [nameSrv, topic, startMs, file, inFlight, pauseMs] = process.argv.slice(2);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let seen = { acked: 0, failed: 0, relayed: 0, gap_ms: 0, errors: [] };
let numbers = '';
let number = 0;
let lastAt = Date.now();
let over = false;

async function send(producer) {
  while (!over) {
    number += 1;
    const mine = number;
    try {
      const { messageQueue } = await producer.send(new Message(topic, 'TagA', String(mine)));
      seen.gap_ms = Math.max(seen.gap_ms, Date.now() - lastAt);
      lastAt = Date.now();
      seen.acked += 1;
      seen.relayed += messageQueue.brokerName.startsWith('~') ? 1 : 0;
      numbers += `${mine}\n`;
    } catch (error) {
      seen.failed += 1;
      if (seen.errors.length < ERRORS_MAX) seen.errors.push(String(error));
    }
    await sleep(Number(pauseMs));
  }
}

function mark() {
  seen.gap_ms = Math.max(seen.gap_ms, Date.now() - lastAt);
  const line = `${JSON.stringify(seen)}\n`;
  seen = { acked: 0, failed: 0, relayed: 0, gap_ms: 0, errors: [] };
  fs.appendFileSync(file, numbers);
  numbers = '';
  return new Promise((resolve) => process.stdout.write(line, resolve));
}

async function main() {
  await sleep(Math.max(0, Number(startMs) - Date.now()));
  const producer = new Producer({
    nameSrv,
    accessKeyId: 'none',
    accessKeySecret: 'none',
    producerGroup: `G_${topic}_P`,
    instanceName: 'sends',
    logger,
    httpclient: { request: () => Promise.reject(new Error('no HTTP here')) },
  });
  producer.on('error', (error) => process.stderr.write(`${error}\n`));
  await producer.ready();
  const sending = Array.from({ length: Number(inFlight) }, () => send(producer));
  for await (const order of readline.createInterface({ input: process.stdin })) {
    if (order === 'stop') break;
    await mark();
  }
  over = true;
  await Promise.all(sending);
  await mark();
  process.exit(0);
}

main();
