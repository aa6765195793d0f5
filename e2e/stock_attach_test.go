package e2e

import (
	"strings"
	"testing"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Unmodified clients are given the card of attach instead of the agent's own,
// and do in mode require what the capability permits, and no more.
func TestAttachStockClients(t *testing.T) {
	w := start(t, options{agent: "    enforces: context\n"})
	a := w.attach("attach", newKey(t), documentsThrough(w), "--session-file", w.sessionFile())
	card := a.where.Agents["documents"]
	t.Run("JavaScript SDK", func(t *testing.T) {
		printed := javascript(t, card, "", []string{"skill", "search_documents", "{}"}, []string{"stream", "task open"}, []string{"get", "$task"}, []string{"cancel", "$task"})
		if all := strings.Join(printed, "\n"); !strings.Contains(all, "echo") || !strings.Contains(all, "TASK_STATE_CANCELED") || strings.Contains(all, "error") {
			t.Errorf("%s\n%s", all, a.out)
		}
		if all := strings.Join(javascript(t, card, "", []string{"skill", "delete_document", "{}"}), "\n"); !strings.Contains(all, "operation_not_granted") {
			t.Errorf("what is not in the capability: %s", all)
		}
	})
	t.Run("a2a command", func(t *testing.T) {
		base := strings.TrimSuffix(card, cardPath)
		printed := golang(t, commandLine(t), base, []string{"send", "$url", "task open"}, []string{"get", "task", "$url", "$task"}, []string{"cancel", "$url", "$task"})
		if all := strings.Join(printed, "\n"); !strings.Contains(all, "TASK_STATE_CANCELED") {
			t.Errorf("%s\n%s", all, a.out)
		}
	})
	if calls := len(w.documents.got()); calls < 6 {
		t.Errorf("%d calls reached the agent", calls)
	}
	for _, r := range w.documents.got() {
		if r.header.Get("Powerbox-Context") == "" || r.header.Get("Powerbox-Capability") != "" {
			t.Errorf("the agent got %v", r.header)
		}
	}
}

// A status without a message reaches the clients of gRPC as what it is.
func TestAttachStatusAloneOverGRPC(t *testing.T) {
	on := wire{overGRPC, "1.0"}
	w := start(t, options{on: on})
	at := address(t)
	w.attach("attach", newKey(t), "agents:\n  - name: documents\n    card: "+w.agentURL("documents")+"\n    grpc: "+at+"\n"+readReports, "--session-file", w.sessionFile())
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = v1.NewA2AServiceClient(conn).GetTask(t.Context(), &v1.GetTaskRequest{Id: "nobody-has-it"})
	if code := status.Code(err); code != grpccodes.NotFound {
		t.Errorf("%s: %v", code, err)
	}
}
