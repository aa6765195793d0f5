package agentauth

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

// maxEvent bounds one event of a stream.
const maxEvent = 4 << 20

func isStream(h http.Header) bool {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && t == "text/event-stream"
}

// follow reads a stream until its done event, without which it has not ended well
// (section 5.11), and returns what came with that.
func follow(stream io.ReadCloser, events func(Event) error) (json.RawMessage, error) {
	defer func() { _ = stream.Close() }() // it has ended, or no more is read
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	name, size := "", 0
	var data []string
	for lines.Scan() {
		line := lines.Text()
		if field, value, _ := strings.Cut(line, ":"); line != "" {
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				name = value
			case "data":
				if size += len(value); size > maxEvent {
					return nil, errors.New("an event of the stream is too large")
				}
				data = append(data, value)
			}
			continue
		}
		if name == "" && data == nil {
			continue
		}
		end, final, err := take(name, strings.Join(data, "\n"), events)
		if end || err != nil {
			return final, err
		}
		name, data, size = "", nil, 0
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the stream broke off: it ended without done")
}

// take passes one event on.
func take(name, data string, events func(Event) error) (end bool, final json.RawMessage, err error) {
	e := Event{Name: name, Data: json.RawMessage("null")}
	if name == "" || name == "message" {
		e.Name = "data"
	}
	if data != "" {
		if e.Data = json.RawMessage(data); !json.Valid(e.Data) {
			return false, nil, errors.New("an event of the stream is no JSON")
		}
	}
	if e.Name == "error" {
		return false, nil, refusal(0, e.Data)
	}
	end = e.Name == "done"
	if events != nil {
		err = events(e)
	}
	return end, e.Data, err
}
