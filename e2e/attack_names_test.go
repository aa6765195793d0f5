package e2e

import (
	"strings"
	"testing"
)

// TestATK124_NamesOfTasksAreReadOneWay names a task by the resource names of A2A 0.3, in
// forms that readers split at different places: the Java kit takes what stands behind the
// last slash, and others what stands behind the first. The agent gets none of them.
func TestATK124_NamesOfTasksAreReadOneWay(t *testing.T) {
	for _, on := range []wire{{overGRPC, "0.3"}, {}, {"JSON-RPC", "0.3"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on, agent: "    enforces: context"})
			alice, bob := w.caller(aliceToken), w.caller(bobToken)
			held := alice.reports()
			own, _ := alice.open(held)
			foreign, _ := bob.open(bob.reports())
			for method, op := range map[string]string{"GetTask": "a2a.task.read", "CancelTask": "a2a.task.cancel"} {
				try := func(name string) (answer, int) {
					w.documents.forget()
					a := alice.present("documents", rpc(method, map[string]any{"name": "tasks/" + name}), proven{chain: []string{held.Token}, operation: op, arguments: map[string]any{"task": own}})
					return a, len(w.documents.got())
				}
				for _, name := range []string{own + "/" + foreign, own + "/tasks/" + foreign, own + "/pushNotificationConfigs/" + foreign, own + "/", "/" + foreign, own + "//" + foreign} {
					a, n := try(name)
					if n > 0 || a.Error == nil {
						t.Errorf("ATK-124 %s of tasks/%s arrived: %s", method, strings.NewReplacer(own, "OWN", foreign, "FOREIGN").Replace(name), a.Raw)
					}
				}
				if a, n := try(own); n != 1 {
					t.Errorf("ATK-124 %s of the caller's own task: %s", method, a.Raw)
				}
			}
		})
	}
}
