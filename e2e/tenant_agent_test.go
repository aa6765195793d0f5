package e2e

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
)

// numbering is an agent that numbers its tasks and contexts in each of its tenants,
// from one on, and has a state in which the words that came with each stand.
type numbering struct {
	mu      sync.Mutex
	tenants map[string][]*numbered
}

type numbered struct {
	task    *a2a.Task
	configs []*a2a.PushConfig
}

// newNumbering is a stock agent of that kind. It has its tenants in the paths of
// HTTP+JSON, too.
func newNumbering(t *testing.T, skills ...string) *stock {
	t.Helper()
	n := &numbering{tenants: map[string][]*numbered{}}
	return newStockOf(t, func(*a2a.AgentCard, <-chan struct{}) a2asrv.RequestHandler { return n }, skills...)
}

// restOf serves a handler over HTTP+JSON: tenants are the first part of a path.
func restOf(h a2asrv.RequestHandler) http.Handler {
	plain, below := a2asrv.NewRESTHandler(h), a2asrv.NewTenantRESTHandler("/{*}", h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, rest, _ := strings.Cut(r.URL.Path[1:], "/")
		if first == "tasks" || rest == "" && (strings.HasPrefix(first, "message:") || first == "extendedAgentCard") {
			plain.ServeHTTP(w, r)
			return
		}
		below.ServeHTTP(w, r)
	})
}

// grpcOf serves a handler over gRPC, with the tenants of calls that a2a-go 2.4.0 does
// not pass on to it.
type grpcOf struct {
	*a2agrpcv1.Handler
	inner a2asrv.RequestHandler
}

func (g grpcOf) CancelTask(ctx context.Context, r *v1.CancelTaskRequest) (*v1.Task, error) {
	if r.GetTenant() == "" {
		return g.Handler.CancelTask(ctx, r)
	}
	task, err := g.inner.CancelTask(ctx, &a2a.CancelTaskRequest{Tenant: r.GetTenant(), ID: a2a.TaskID(r.GetId())})
	if err != nil {
		return nil, err
	}
	return pbconv.ToProtoTask(task)
}

func (g grpcOf) SubscribeToTask(r *v1.SubscribeToTaskRequest, stream grpc.ServerStreamingServer[v1.StreamResponse]) error {
	if r.GetTenant() == "" {
		return g.Handler.SubscribeToTask(r, stream)
	}
	for event, err := range g.inner.SubscribeToTask(stream.Context(), &a2a.SubscribeToTaskRequest{Tenant: r.GetTenant(), ID: a2a.TaskID(r.GetId())}) {
		if err != nil {
			return err
		}
		said, err := pbconv.ToProtoStreamResponse(event)
		if err == nil {
			err = stream.Send(said)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// find is called with the lock.
func (n *numbering) find(tenant string, id a2a.TaskID) (*numbered, error) {
	for _, one := range n.tenants[tenant] {
		if one.task.ID == id {
			return one, nil
		}
	}
	return nil, a2a.ErrTaskNotFound
}

func (n *numbering) task(tenant string, id a2a.TaskID) (*a2a.Task, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, err := n.find(tenant, id)
	if err != nil {
		return nil, err
	}
	out := *one.task
	return &out, nil
}

// say takes a message into its task, or into a new one, and has events posted.
func (n *numbering) say(req *a2a.SendMessageRequest) (*a2a.Task, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	words := ""
	for _, p := range req.Message.Parts {
		words += p.Text()
	}
	one, err := n.find(req.Tenant, req.Message.TaskID)
	if req.Message.TaskID == "" {
		number := strconv.Itoa(len(n.tenants[req.Tenant]) + 1)
		one, err = &numbered{task: &a2a.Task{ID: a2a.TaskID(number), ContextID: "c" + number}}, nil
		if req.Message.ContextID != "" {
			one.task.ContextID = req.Message.ContextID
		}
		n.tenants[req.Tenant] = append(n.tenants[req.Tenant], one)
	}
	if err != nil {
		return nil, err
	}
	if c := req.Config; c != nil && c.PushConfig != nil {
		one.configs = append(one.configs, c.PushConfig)
	}
	one.says("in tenant " + req.Tenant + ": " + words)
	for _, c := range one.configs {
		go posts(*c, *one.task)
	}
	out := *one.task
	return &out, nil
}

// says puts words into the state of a task. It is called with the lock.
func (one *numbered) says(words string) {
	task := *one.task // earlier answers stay unchanged
	if m := task.Status.Message; m != nil {
		words = m.Parts[0].Text() + "; " + words
	}
	now := time.Now()
	task.Status = a2a.TaskStatus{State: a2a.TaskStateInputRequired, Timestamp: &now, Message: a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(words))}
	one.task = &task
}

// posts posts an event, which names no tenant.
func posts(c a2a.PushConfig, task a2a.Task) {
	body := fmt.Sprintf(`{"statusUpdate":{"taskId":%q,"contextId":%q,"status":{"state":"TASK_STATE_WORKING"},"metadata":{"of":%q}}}`,
		task.ID, task.ContextID, task.Status.Message.Parts[0].Text())
	req, err := http.NewRequest(http.MethodPost, c.URL, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Notification-Token", c.Token)
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

func (n *numbering) GetTask(_ context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return n.task(r.Tenant, r.ID)
}

func (n *numbering) ListTasks(_ context.Context, r *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	from, _ := strconv.Atoi(strings.TrimPrefix(r.PageToken, "from-"))
	size := r.PageSize
	if size == 0 {
		size = 50
	}
	out := &a2a.ListTasksResponse{Tasks: []*a2a.Task{}, PageSize: size}
	for i, one := range n.tenants[r.Tenant] {
		if r.ContextID != "" && one.task.ContextID != r.ContextID {
			continue
		}
		out.TotalSize++
		switch {
		case i < from:
		case len(out.Tasks) < size:
			task := *one.task
			out.Tasks = append(out.Tasks, &task)
		case out.NextPageToken == "":
			out.NextPageToken = "from-" + strconv.Itoa(i)
		}
	}
	return out, nil
}

func (n *numbering) CancelTask(_ context.Context, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, err := n.find(r.Tenant, r.ID)
	if err != nil {
		return nil, err
	}
	one.says("ended")
	one.task.Status.State = a2a.TaskStateCanceled
	out := *one.task
	return &out, nil
}

func (n *numbering) SendMessage(_ context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return n.say(r)
}

func (n *numbering) SendStreamingMessage(_ context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) { yield(n.say(r)) }
}

func (n *numbering) SubscribeToTask(_ context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) { yield(n.task(r.Tenant, r.ID)) }
}

func (n *numbering) CreateTaskPushConfig(_ context.Context, c *a2a.PushConfig) (*a2a.PushConfig, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, err := n.find(c.Tenant, c.TaskID)
	if err == nil {
		one.configs = append(one.configs, c)
	}
	return c, err
}

func (n *numbering) ListTaskPushConfigs(_ context.Context, r *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, err := n.find(r.Tenant, r.TaskID)
	if err != nil {
		return nil, err
	}
	return &a2a.ListTaskPushConfigResponse{Configs: slices.Clone(one.configs)}, nil
}

func (n *numbering) GetTaskPushConfig(ctx context.Context, r *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	all, err := n.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{Tenant: r.Tenant, TaskID: r.TaskID})
	if err != nil {
		return nil, err
	}
	for _, c := range all.Configs {
		if c.ID == r.ID {
			return c, nil
		}
	}
	return nil, a2a.ErrTaskNotFound
}

func (n *numbering) DeleteTaskPushConfig(_ context.Context, r *a2a.DeleteTaskPushConfigRequest) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, err := n.find(r.Tenant, r.TaskID)
	if err == nil {
		one.configs = slices.DeleteFunc(one.configs, func(c *a2a.PushConfig) bool { return c.ID == r.ID })
	}
	return err
}

func (*numbering) GetExtendedAgentCard(context.Context, *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return nil, a2a.ErrExtendedCardNotConfigured
}
