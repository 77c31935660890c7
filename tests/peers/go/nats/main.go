// Command nats is the client of JetStream for `scripts/bench messages`: an order a line, answered
// with a line of JSON. tests/peers/README.md lists them.
//
//	nats SERVERS…    one program for all three nodes; the stream has three replicas in files
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	bodies       = 4096 // different random bodies: no repetition to profit from
	fillWindow   = 1024
	openSeconds  = 120
	readSeconds  = 300
	keyHeader    = "Key"
	replicaCount = 3
)

type client struct {
	connection *nats.Conn
	stream     jetstream.JetStream
}

type sent struct {
	at     time.Time
	future jetstream.PubAckFuture
	err    error // it was refused at once
}

func main() {
	out := json.NewEncoder(os.Stdout)
	must(out.Encode(map[string]any{}))
	in := bufio.NewScanner(os.Stdin)
	var one client
	for in.Scan() {
		words := strings.Split(in.Text(), " ")
		if words[0] == "stop" {
			return
		}
		answer, err := one.answer(words)
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		must(out.Encode(answer))
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	must(err)
	return value
}

func (c *client) answer(words []string) (map[string]any, error) {
	switch words[0] {
	case "open":
		return map[string]any{}, c.open(words[1], words[2])
	case "send":
		until := time.Now().Add(time.Duration(number(words[5])) * time.Millisecond)
		again := func(int) bool { return time.Now().Before(until) }
		return c.send(words[2], number(words[3]), number(words[4]), again, "")
	case "fill":
		again := func(at int) bool { return at < number(words[2]) }
		return c.send(words[1], fillWindow, number(words[3]), again, "key-")
	case "consume":
		return c.consume(words[2], number(words[3]))
	}
	return nil, errors.New("no such order: " + words[0])
}

// open reaches the servers, makes the stream, and gets one acknowledgement.
func (c *client) open(servers, topic string) error {
	end := time.Now().Add(openSeconds * time.Second)
	for {
		err := c.tryOpen(servers, topic)
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *client) tryOpen(servers, topic string) error {
	var err error
	if c.connection == nil {
		if c.connection, err = nats.Connect(servers, nats.RetryOnFailedConnect(false)); err != nil {
			c.connection = nil
			return err
		}
		pending := jetstream.WithPublishAsyncMaxPending(2 * fillWindow)
		if c.stream, err = jetstream.New(c.connection, pending); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = c.stream.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: topic, Subjects: []string{topic}, Replicas: replicaCount, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return err
	}
	_, err = c.stream.PublishMsg(ctx, message(topic, make([]byte, 16), "first"))
	return err
}

func message(topic string, body []byte, key string) *nats.Msg {
	made := &nats.Msg{Subject: topic, Data: body}
	if key != "" {
		made.Header = nats.Header{keyHeader: []string{key}}
	}
	return made
}

// send keeps `window` messages in flight; acknowledgements come in the stream's order.
func (c *client) send(
	topic string, window, size int, again func(int) bool, key string,
) (map[string]any, error) {
	block := make([]byte, bodies*size)
	if _, err := rand.Read(block); err != nil {
		return nil, err
	}
	found := &meter{}
	free, flying := make(chan struct{}, window), make(chan sent, window)
	finished := make(chan struct{})
	go func() {
		for one := range flying {
			if one.err != nil {
				found.fail(one.err)
			} else {
				select {
				case <-one.future.Ok():
					found.latencies = append(found.latencies, time.Since(one.at))
				case err := <-one.future.Err():
					found.fail(err)
				}
			}
			<-free
		}
		close(finished)
	}()
	begun := time.Now()
	for at := 0; again(at); at++ {
		free <- struct{}{}
		named := key
		if key != "" {
			named += strconv.Itoa(at)
		}
		from := at % bodies * size
		msg, sentAt := message(topic, block[from:from+size], named), time.Now()
		future, err := c.stream.PublishMsgAsync(msg)
		flying <- sent{sentAt, future, err}
	}
	close(flying)
	<-finished
	return found.told(time.Since(begun).Seconds()), nil
}

type meter struct {
	latencies []time.Duration
	failed    int
	err       string
}

func (m *meter) fail(err error) {
	m.failed++
	m.err = err.Error()
}

func (m *meter) told(seconds float64) map[string]any {
	sort.Slice(m.latencies, func(a, b int) bool { return m.latencies[a] < m.latencies[b] })
	part := func(share float64) float64 {
		if len(m.latencies) == 0 {
			return 0
		}
		at := int(share * float64(len(m.latencies)))
		return float64(m.latencies[min(at, len(m.latencies)-1)].Nanoseconds()) / 1e6
	}
	return map[string]any{
		"acked": len(m.latencies), "failed": m.failed, "seconds": seconds,
		"p50_ms": part(0.5), "p99_ms": part(0.99), "error": m.err,
	}
}

// consume reads from the start; the clock runs from the first message to the last.
func (c *client) consume(topic string, count int) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readSeconds*time.Second)
	defer cancel()
	reader, err := c.stream.OrderedConsumer(ctx, topic, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return nil, err
	}
	var first, last time.Time
	var wrong error
	read, size, all := 0, 0, make(chan struct{})
	reading, err := reader.Consume(func(msg jetstream.Msg) {
		if read == count {
			return
		}
		if read == 0 {
			first = time.Now()
		}
		place, err := msg.Metadata()
		if err != nil || place.Sequence.Stream == 0 || msg.Headers().Get(keyHeader) == "" {
			wrong = errors.New("a message without a key or an offset")
		}
		size += len(msg.Data())
		if read++; read == count {
			last = time.Now()
			close(all)
		}
	})
	if err != nil {
		return nil, err
	}
	defer reading.Stop()
	select {
	case <-all:
	case <-ctx.Done():
		return nil, fmt.Errorf("%d of %d came in %d s", read, count, readSeconds)
	}
	return map[string]any{
		"messages": read, "bytes": size, "seconds": last.Sub(first).Seconds(),
	}, wrong
}
