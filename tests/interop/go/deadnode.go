package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const errorsMax = 5

// deadNode sends from so many goroutines, each with a pause after a send, until stdin says stop;
// orders, lines and the file are those of DeadNode.java.
func deadNode(nameserver, topic, startMs, file, threads, pauseMs string) {
	at, err := strconv.ParseInt(startMs, 10, 64)
	must(err)
	time.Sleep(time.Until(time.UnixMilli(at)))
	count, err := strconv.Atoi(threads)
	must(err)
	pause, err := strconv.Atoi(pauseMs)
	must(err)
	numbers, err := os.Create(file)
	must(err)
	f := &Fixture{nameserver: nameserver, topic: topic}
	made := f.producer()
	sends := &sends{file: bufio.NewWriter(numbers), last: time.Now(), errors: []string{}}
	var all sync.WaitGroup
	over := make(chan bool)
	for thread := 0; thread < count; thread++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				select {
				case <-over:
					return
				default:
				}
				number := sends.began()
				result, err := made.SendSync(context.Background(), f.message(strconv.Itoa(number), "TagA"))
				name := ""
				if err == nil {
					name = result.MessageQueue.BrokerName
				}
				sends.went(number, name, err)
				time.Sleep(time.Duration(pause) * time.Millisecond)
			}
		}()
	}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() && orders.Text() != "stop" {
		sends.mark()
	}
	close(over)
	all.Wait()
	sends.mark()
	os.Exit(0)
}

// sends is what became of the messages since the mark before.
type sends struct {
	mutex                          sync.Mutex
	file                           *bufio.Writer
	number, acked, failed, relayed int
	last                           time.Time
	gap                            time.Duration
	errors                         []string
}

func (s *sends) began() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.number++
	return s.number
}

func (s *sends) went(number int, name string, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err != nil {
		s.failed++
		if len(s.errors) < errorsMax {
			s.errors = append(s.errors, err.Error())
		}
		return
	}
	s.gap = s.longest()
	s.last = time.Now()
	s.acked++
	if strings.HasPrefix(name, "~") {
		s.relayed++
	}
	fmt.Fprintln(s.file, number)
}

func (s *sends) longest() time.Duration {
	if now := time.Since(s.last); now > s.gap {
		return now
	}
	return s.gap
}

func (s *sends) mark() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	gap := s.longest()
	line, _ := json.Marshal(Facts{
		"acked": s.acked, "failed": s.failed, "relayed": s.relayed,
		"gap_ms": gap.Milliseconds(), "errors": s.errors,
	})
	fmt.Println(string(line))
	must(s.file.Flush())
	s.acked, s.failed, s.relayed, s.gap, s.errors = 0, 0, 0, 0, []string{}
}
