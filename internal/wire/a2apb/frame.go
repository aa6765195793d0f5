package a2apb

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// prefix is the length of the bytes before every message: a flag for compression and the
// message's length (gRPC over HTTP/2, Length-Prefixed-Message).
const prefix = 5

// Errors of frames.
var (
	// ErrCompressed is a message that cannot be read as it stands.
	ErrCompressed = errors.New("the message is compressed; send it with grpc-encoding identity")
	// ErrFrame is a body that is not the messages that it should be.
	ErrFrame = errors.New("the body is not one whole message in its frame")
)

// Unframe returns the one message of a unary body.
func Unframe(body []byte) ([]byte, error) {
	if len(body) < prefix {
		return nil, ErrFrame
	}
	if body[0] != 0 {
		return nil, ErrCompressed
	}
	message := body[prefix:]
	if uint64(binary.BigEndian.Uint32(body[1:prefix])) != uint64(len(message)) {
		return nil, ErrFrame
	}
	return message, nil
}

// Frame returns a message in its frame.
func Frame(message []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(b, message...)
}

// Frames splits a stream of messages while its bytes pass by, as [a2a.Frames]
// does with server-sent events.
type Frames struct {
	limit   int
	message func(message []byte, whole bool)

	buffer []byte
	skip   int // bytes of a message that is too long, still to come
}

// NewFrames returns a splitter that calls message with each message, which is
// valid during the call. One that is compressed or longer than limit is reported
// with whole false.
func NewFrames(limit int, message func(message []byte, whole bool)) *Frames {
	return &Frames{limit: limit, message: message}
}

// Write implements io.Writer. It never fails.
func (f *Frames) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if f.skip > 0 {
			k := min(f.skip, len(p))
			f.skip, p = f.skip-k, p[k:]
			continue
		}
		if missing := prefix - len(f.buffer); missing > 0 {
			k := min(missing, len(p))
			f.buffer, p = append(f.buffer, p[:k]...), p[k:]
			if len(f.buffer) < prefix {
				break
			}
			if f.begin() {
				continue
			}
		}
		size := prefix + int(binary.BigEndian.Uint32(f.buffer[1:prefix]))
		k := min(size-len(f.buffer), len(p))
		f.buffer, p = append(f.buffer, p[:k]...), p[k:]
		if len(f.buffer) == size {
			f.message(f.buffer[prefix:], true)
			f.buffer = f.buffer[:0]
		}
	}
	return n, nil
}

// begin looks at a frame's prefix and reports whether that is all there is to
// read of it.
func (f *Frames) begin() bool {
	size := int(binary.BigEndian.Uint32(f.buffer[1:prefix]))
	switch {
	case f.buffer[0] != 0 || size > f.limit:
		f.message(nil, false)
		f.skip, f.buffer = size, f.buffer[:0]
	case size == 0:
		f.message(nil, true)
		f.buffer = f.buffer[:0]
	default:
		return false
	}
	return true
}

// Begun is how many of the bytes that came belong to a message that has begun and not ended.
func (f *Frames) Begun() int { return len(f.buffer) }

// Close exists for the likeness to [a2a.Frames]: an unfinished end of a stream is no
// message.
func (f *Frames) Close() {}

// SetStatus writes a denial as the status of an answer, into headers or
// trailers.
func SetStatus(h http.Header, s a2a.RPCStatus) error {
	info, err := anypb.New(&errdetails.ErrorInfo{Reason: s.Reason, Domain: s.Domain, Metadata: s.Metadata})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	details, err := proto.Marshal(&status.Status{Code: int32(s.Code), Message: s.Message, Details: []*anypb.Any{info}})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	h.Set("Grpc-Status", strconv.Itoa(s.Code))
	h.Set("Grpc-Message", percent(s.Message))
	h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	return nil
}

// percent encodes a status message as gRPC over HTTP/2 has it.
func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
