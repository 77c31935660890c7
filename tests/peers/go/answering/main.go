// Command answering is a name server and a broker in one that answers at once and keeps nothing:
// what a client of RocketMQ reaches beside it is the most that this client can do.
//
//	answering HOST:PORT QUEUES    routes of every topic name this address
//
// A request, and an answer, is: size 4 | kind 1, header size 3 | header, JSON | body.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

const (
	routeCode  = 105
	headerMax  = 1 << 20
	frameMax   = 1 << 26
	bufferSize = 1 << 18
	oneway     = 2
)

var sendCodes = map[int]bool{10: true, 310: true, 320: true}

func main() {
	address, queues := os.Args[1], os.Args[2]
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	route := fmt.Appendf(nil, `{"brokerDatas":[{"brokerAddrs":{"0":"%s"},"brokerName":"at-once",`+
		`"cluster":"at-once"}],"filterServerTable":{},"queueDatas":[{"brokerName":"at-once",`+
		`"perm":6,"readQueueNums":%s,"topicSysFlag":0,"writeQueueNums":%s}]}`, address, queues, queues)
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(connection, route)
	}
}

// serve answers one connection until it ends; what came together is answered in one write.
func serve(connection net.Conn, route []byte) {
	defer connection.Close()
	in, out := bufio.NewReaderSize(connection, bufferSize), bufio.NewWriterSize(connection, bufferSize)
	frame, offset := []byte{}, 0
	for {
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
		header, err := read(in, &frame)
		if err != nil {
			return
		}
		code, flag := field(header, `"code":`), field(header, `"flag":`)
		if flag&oneway != 0 {
			continue
		}
		extra, body := []byte("{}"), []byte(nil)
		switch {
		case sendCodes[code]:
			extra = fmt.Appendf(nil, `{"msgId":"7F000001000000000000%012X","queueId":"0",`+
				`"queueOffset":"%d"}`, offset, offset)
			offset++
		case code == routeCode:
			body = route
		}
		answer := fmt.Appendf(nil, `{"code":0,"extFields":%s,"flag":1,"language":"GO","opaque":%d,`+
			`"serializeTypeCurrentRPC":"JSON","version":0}`, extra, field(header, `"opaque":`))
		var sizes [8]byte
		binary.BigEndian.PutUint32(sizes[:], uint32(4+len(answer)+len(body)))
		binary.BigEndian.PutUint32(sizes[4:], uint32(len(answer)))
		out.Write(sizes[:])
		out.Write(answer)
		out.Write(body)
	}
}

// read returns the header of the next frame; its bytes are good until the next call.
func read(in io.Reader, frame *[]byte) ([]byte, error) {
	var sizes [8]byte
	if _, err := io.ReadFull(in, sizes[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(sizes[:])) - 4
	headerSize := int(binary.BigEndian.Uint32(sizes[4:]) & 0xFFFFFF)
	if sizes[4] != 0 || size < headerSize || size > frameMax || headerSize > headerMax {
		return nil, fmt.Errorf("no frame with a JSON header: % x", sizes)
	}
	if cap(*frame) < size {
		*frame = make([]byte, size)
	}
	whole := (*frame)[:size]
	if _, err := io.ReadFull(in, whole); err != nil {
		return nil, err
	}
	return whole[:headerSize], nil
}

// field returns the number behind a name; fields of requests hold text, so a name in one of them
// would have a backslash before its quote.
func field(header []byte, name string) int {
	at := bytes.Index(header, []byte(name))
	if at < 0 {
		return 0
	}
	rest := header[at+len(name):]
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return 0
	}
	value, _ := strconv.Atoi(string(rest[:end]))
	return value
}
