package a2a

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// server notes what a2a-go's own server makes of a request.
type server struct {
	a2asrv.RequestHandler
	method Method
	task   string
	text   bool
}

var errNoted = errors.New("noted")

func (s *server) note(m Method, task a2a.TaskID) error {
	s.method, s.task = m, string(task)
	return errNoted
}

func (s *server) message(m Method, r *a2a.SendMessageRequest) error {
	if r.Message == nil {
		return s.note(m, "")
	}
	for _, p := range r.Message.Parts {
		s.text = s.text || p != nil && p.Text() != ""
	}
	return s.note(m, r.Message.TaskID)
}

func (s *server) GetTask(_ context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return nil, s.note(GetTask, r.ID)
}

func (s *server) ListTasks(context.Context, *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return nil, s.note(ListTasks, "")
}

func (s *server) CancelTask(_ context.Context, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return nil, s.note(CancelTask, r.ID)
}

func (s *server) SendMessage(_ context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return nil, s.message(SendMessage, r)
}

func (s *server) SendStreamingMessage(_ context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	err := s.message(SendStreamingMessage, r)
	return func(yield func(a2a.Event, error) bool) { yield(nil, err) }
}

func (s *server) SubscribeToTask(_ context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	err := s.note(SubscribeToTask, r.ID)
	return func(yield func(a2a.Event, error) bool) { yield(nil, err) }
}

func (s *server) GetTaskPushConfig(_ context.Context, r *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	return nil, s.note(GetPushConfig, r.TaskID)
}

func (s *server) ListTaskPushConfigs(_ context.Context, r *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	return nil, s.note(ListPushConfigs, r.TaskID)
}

func (s *server) CreateTaskPushConfig(_ context.Context, r *a2a.PushConfig) (*a2a.PushConfig, error) {
	return nil, s.note(CreatePushConfig, r.TaskID)
}

func (s *server) DeleteTaskPushConfig(_ context.Context, r *a2a.DeleteTaskPushConfigRequest) error {
	return s.note(DeletePushConfig, r.TaskID)
}

func (s *server) GetExtendedAgentCard(context.Context, *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return nil, s.note(GetExtendedCard, "")
}

// What we read in a request of HTTP+JSON is what a2a-go's servers do with it:
// the same method, of the same task, with text where it finds text (ATK-29).
func FuzzDecodeHTTP(f *testing.F) {
	const search = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"s","arguments":{}}}]}}`
	for _, seed := range [][4]string{
		{"POST", "/message:send", "", search},
		{"POST", "/message:stream", "A2A-Version=1.0", `{"message":{"taskId":"t","parts":[{"text":"x"}]}}`},
		{"POST", "/v1/message:send", "", `{"request":{"content":[{"data":{"data":{"skill":"s"}}}]}}`},
		{"POST", "/message%3Asend", "tenant=x", search},
		{"GET", "/tasks/t1", "historyLength=3", ""},
		{"GET", "/tasks/t1:subscribe", "", ""},
		{"POST", "/tasks/t1:cancel", "", `{"id":"t1"}`},
		{"POST", "/tasks/%74:cancel", "", ""},
		{"GET", "/tasks", "contextId=c&pageSize=3", ""},
		{"GET", "/tasks/", "", ""},
		{"GET", "//tasks/t", "", ""},
		{"GET", "/x/../tasks/t", "", ""},
		{"POST", "/tasks/t/pushNotificationConfigs", "", `{"url":"https://x/","taskId":"t"}`},
		{"DELETE", "/tasks/t/pushNotificationConfigs/c", "", ""},
		{"GET", "/acme/tasks/t/pushNotificationConfigs/c", "", ""},
		{"GET", "/extendedAgentCard", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], []byte(seed[3]), false)
		f.Add(seed[0], "/v1"+seed[1], seed[2], []byte(seed[3]), true)
	}
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte, old bool) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || u.RawQuery != "" || u.EscapedPath() != path {
			return // such a request cannot come
		}
		u.RawQuery = query
		call, wrong := DecodeHTTP(HTTPRequest{Method: method, Path: path, Query: query, Body: body}, Header{Version: map[bool]string{false: Version1, true: Version03}[old]}, testLimits)
		if wrong != nil {
			if wrong.Code == 0 || wrong.Reason == "" || wrong.Message == "" {
				t.Errorf("error without code, reason or message: %+v", wrong)
			}
			return
		}
		if call.Method == Unknown {
			return
		}
		request, err := http.NewRequestWithContext(t.Context(), method, "http://x/", bytes.NewReader(body))
		if err != nil {
			return
		}
		request.URL.Path, request.URL.RawPath, request.URL.RawQuery = u.Path, u.RawPath, query
		s := &server{}
		handler := a2asrv.NewRESTHandler(s)
		if old {
			handler = a2av0.NewRESTHandler(s)
		}
		handler.ServeHTTP(httptest.NewRecorder(), request)
		if s.method == Unknown {
			return // it refuses what we let it see
		}
		if s.method != call.Method || s.task != call.Task {
			t.Errorf("the server did %v of task %q; we read %v of task %q", s.method, s.task, call.Method, call.Task)
		}
		if s.text && !call.Message.Loose {
			t.Errorf("the server found text; we none in %s", body)
		}
	})
}
