// Command etcd is the client of etcd for `scripts/bench messages`: an order a line, answered with
// a line of JSON. tests/peers/README.md lists them.
//
// A message is one Put under a key of its own, TOPIC/NUMBER; its offset is the revision.
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
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	bodies      = 4096 // different random bodies: no repetition to profit from
	fillWindow  = 1024
	openSeconds = 120
	putSeconds  = 30
	readSeconds = 300
	pageCount   = 1000
)

type client struct {
	connection *clientv3.Client
	next       atomic.Int64 // each message has a key that none had before
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
		return c.send(words[2], number(words[3]), number(words[4]), again)
	case "fill":
		again := func(at int) bool { return at < number(words[2]) }
		return c.send(words[1], fillWindow, number(words[3]), again)
	case "consume":
		return c.consume(words[2], number(words[3]))
	}
	return nil, errors.New("no such order: " + words[0])
}

// open reaches the servers and gets one acknowledgement.
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
	if c.connection == nil {
		made, err := clientv3.New(clientv3.Config{
			Endpoints: strings.Split(servers, ","), DialTimeout: 2 * time.Second, Logger: zap.NewNop(),
		})
		if err != nil {
			return err
		}
		c.connection = made
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := c.connection.Put(ctx, c.key(topic), string(make([]byte, 16)))
	return err
}

func (c *client) key(topic string) string {
	return fmt.Sprintf("%s/%012d", topic, c.next.Add(1))
}

// send keeps `window` messages in flight: so many goroutines, each with one Put at a time.
func (c *client) send(topic string, window, size int, again func(int) bool) (map[string]any, error) {
	block := make([]byte, bodies*size)
	if _, err := rand.Read(block); err != nil {
		return nil, err
	}
	found := make([]meter, window)
	var all sync.WaitGroup
	var at atomic.Int64
	begun := time.Now()
	for worker := range window {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				mine := int(at.Add(1)) - 1
				if !again(mine) {
					return
				}
				from := mine % bodies * size
				c.put(topic, string(block[from:from+size]), &found[worker])
			}
		}()
	}
	all.Wait()
	return told(found, time.Since(begun).Seconds()), nil
}

func (c *client) put(topic, body string, found *meter) {
	ctx, cancel := context.WithTimeout(context.Background(), putSeconds*time.Second)
	defer cancel()
	sentAt := time.Now()
	if _, err := c.connection.Put(ctx, c.key(topic), body); err != nil {
		found.failed++
		found.err = err.Error()
		return
	}
	found.latencies = append(found.latencies, time.Since(sentAt))
}

type meter struct {
	latencies []time.Duration
	failed    int
	err       string
}

func told(meters []meter, seconds float64) map[string]any {
	var all meter
	for _, one := range meters {
		all.latencies = append(all.latencies, one.latencies...)
		all.failed += one.failed
		if one.err != "" {
			all.err = one.err
		}
	}
	sort.Slice(all.latencies, func(a, b int) bool { return all.latencies[a] < all.latencies[b] })
	part := func(share float64) float64 {
		if len(all.latencies) == 0 {
			return 0
		}
		at := int(share * float64(len(all.latencies)))
		return float64(all.latencies[min(at, len(all.latencies)-1)].Nanoseconds()) / 1e6
	}
	return map[string]any{
		"acked": len(all.latencies), "failed": all.failed, "seconds": seconds,
		"p50_ms": part(0.5), "p99_ms": part(0.99), "error": all.err,
	}
}

// consume reads pages of keys from the start; the clock runs from the first message to the last.
func (c *client) consume(topic string, count int) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readSeconds*time.Second)
	defer cancel()
	end := clientv3.GetPrefixRangeEnd(topic + "/")
	from, read, size := topic+"/", 0, 0
	var first, last time.Time
	for read < count {
		page, err := c.connection.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageCount))
		if err != nil {
			return nil, err
		}
		if len(page.Kvs) == 0 {
			return nil, fmt.Errorf("%d of %d are there", read, count)
		}
		for _, one := range page.Kvs {
			if first.IsZero() {
				first = time.Now()
			}
			if one.ModRevision == 0 || len(one.Key) == 0 {
				return nil, errors.New("a message without a key or an offset")
			}
			size += len(one.Value)
			if read++; read == count {
				break
			}
		}
		last = time.Now()
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	return map[string]any{"messages": read, "bytes": size, "seconds": last.Sub(first).Seconds()}, nil
}
