package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A thin client asks by gRPC as a proxy does: the thread that has a request writes it, and reads
// the answer. The client of grpc-go hands each call to other goroutines and back, and that
// time would count as the door's. A connection has one call at a time.
type thin struct {
	at   string
	idle chan *line
}

// line is a connection.
type line struct {
	conn    net.Conn
	out     bytes.Buffer // frames that are written at once
	frames  *http2.Framer
	encoder *hpack.Encoder
	head    bytes.Buffer
	stream  uint32 // of the next call
}

func newThin(at string) *thin { return &thin{at: at, idle: make(chan *line, 64)} }

// Check implements [auth.AuthorizationClient].
func (c *thin) Check(ctx context.Context, in *auth.CheckRequest, _ ...grpc.CallOption) (*auth.CheckResponse, error) {
	var l *line
	select {
	case l = <-c.idle:
	default:
		var err error
		if l, err = open(ctx, c.at); err != nil {
			return nil, err
		}
	}
	answer := &auth.CheckResponse{}
	if err := l.call(c.at, auth.Authorization_Check_FullMethodName, in, answer); err != nil {
		_ = l.conn.Close() // the error says why
		return nil, err
	}
	select {
	case c.idle <- l:
	default:
		_ = l.conn.Close() // there are enough
	}
	return answer, nil
}

func (c *thin) close() (err error) {
	for {
		select {
		case l := <-c.idle:
			err = errors.Join(err, l.conn.Close())
		default:
			return err
		}
	}
}

func open(ctx context.Context, at string) (*line, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	l := &line{conn: conn, stream: 1}
	l.frames = http2.NewFramer(&l.out, conn)
	l.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	l.encoder = hpack.NewEncoder(&l.head)
	l.out.WriteString(http2.ClientPreface)
	return l, l.frames.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0})
}

// flush sends the frames that were written.
func (l *line) flush() error {
	_, err := l.conn.Write(l.out.Bytes())
	l.out.Reset()
	return err
}

func (l *line) call(host, method string, in, answer proto.Message) error {
	message, err := proto.Marshal(in)
	if err != nil {
		return err
	}
	l.head.Reset()
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", host},
		{"te", "trailers"},
		{"content-type", "application/grpc"},
		{"grpc-timeout", "10S"},
	} {
		if err := l.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	data := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	if err := l.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: l.stream, BlockFragment: l.head.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	if err := l.frames.WriteData(l.stream, true, append(data, message...)); err != nil {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	said, err := l.answer()
	if err != nil {
		return err
	}
	l.stream += 2
	if len(said) < 5 || said[0] != 0 || binary.BigEndian.Uint32(said[1:]) != uint32(len(said)-5) {
		return fmt.Errorf("an answer of %d bytes; want one message, which is not compressed", len(said))
	}
	return proto.Unmarshal(said[5:], answer)
}

// answer reads frames until the call ends.
func (l *line) answer() (said []byte, err error) {
	for {
		frame, err := l.frames.ReadFrame()
		if err != nil {
			return nil, err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			said = append(said, f.Data()...)
			err = l.frames.WriteWindowUpdate(0, max(f.Length, 1)) // goes with the next request
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				return said, ended(f)
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = l.frames.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				if err = l.frames.WritePing(true, f.Data); err == nil {
					err = l.flush()
				}
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			err = fmt.Errorf("the server ended the call: %v", f)
		}
		if err != nil {
			return nil, err
		}
	}
}

// ended is the error of a call, nil for one that went well.
func ended(trailers *http2.MetaHeadersFrame) error {
	code, why := "", ""
	for _, f := range trailers.Fields {
		switch f.Name {
		case "grpc-status":
			code = f.Value
		case "grpc-message":
			why = f.Value
		}
	}
	if code == "0" {
		return nil
	}
	return status.Errorf(codes.Unknown, "gRPC status %s: %s", code, why)
}
