package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/holder"
)

// Placeholders stand in the corpus, and in the files of -replay, for what every
// run has anew. Each is as long as what takes its place, so that no length in a
// message changes.
const (
	narrowCapability = "cap_narrow_0000000000000000000"
	wideCapability   = "cap_wide_000000000000000000000"
	ownTask          = "00000000-0000-4000-8000-00000000a001"
	ownContext       = "00000000-0000-4000-8000-00000000a002"
	foreignTask      = "00000000-0000-4000-8000-00000000b001"
	foreignContext   = "00000000-0000-4000-8000-00000000b002"
	caseNumber       = "message-0000000000"
)

// narrow is what the id of an agent ends in, at which a skill takes one collection,
// as a trial. Behind it is the same server.
const narrow = "narrow"

// settle asks for capabilities, and has both callers begin a task at every A2A
// agent.
func (t *town) settle(ctx context.Context) error {
	for _, agent := range t.agents() {
		t.real[agent] = map[string]string{}
		for placeholder, at := range map[string]string{wideCapability: agent, narrowCapability: agent + narrow} {
			id, err := t.capability(ctx, at, mainCaller)
			if err != nil {
				return err
			}
			if err := t.put(agent, placeholder, id); err != nil {
				return err
			}
		}
		if isMCP(agent) {
			continue
		}
		other, err := t.capability(ctx, agent, otherCaller)
		if err != nil {
			return err
		}
		for _, owner := range []struct{ caller, capability, task, context string }{
			{mainCaller, t.real[agent][wideCapability], ownTask, ownContext}, {otherCaller, other, foreignTask, foreignContext},
		} {
			task, context, err := t.begin(ctx, agent, owner.caller, owner.capability)
			if err != nil {
				return fmt.Errorf("%s: the task of %s: %w", agent, owner.caller, err)
			}
			if err := errors.Join(t.put(agent, owner.task, task), t.put(agent, owner.context, context)); err != nil {
				return err
			}
		}
	}
	return nil
}

// put remembers what takes the place of a placeholder in requests to an agent.
func (t *town) put(agent, placeholder, id string) error {
	if len(id) != len(placeholder) {
		return fmt.Errorf("%q takes the place of %q at %s, which is not as long", id, placeholder, agent)
	}
	t.real[agent][placeholder] = id
	return nil
}

func (t *town) capability(ctx context.Context, agent, caller string) (string, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/request","params":{"grants":["data:use"],"purpose":"compare readings"}}`
	_, raw := t.call(ctx, http.MethodPost, "/agents/"+agent, []byte(body), t.callers[caller])
	var answer struct {
		Result struct{ Capabilities []struct{ ID string } }
	}
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Result.Capabilities) != 1 {
		return "", fmt.Errorf("%s gets no capability at %s: %s", caller, agent, raw)
	}
	return answer.Result.Capabilities[0].ID, nil
}

func (t *town) begin(ctx context.Context, agent, caller, capability string) (task, conversation string, err error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":"begin"}]},"metadata":{%q:{"capabilityId":%q}}}}`,
		"own-"+caller+"-"+agent, holder.ExtensionURI, capability)
	_, raw := t.call(ctx, http.MethodPost, "/agents/"+agent, []byte(body), t.callers[caller])
	var answer struct {
		Result struct {
			Task struct{ ID, ContextID string }
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Result.Task.ID == "" {
		return "", "", fmt.Errorf("no task in %s", raw)
	}
	return answer.Result.Task.ID, answer.Result.Task.ContextID, nil
}

func listenOn(address string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
}

// quietServer says nothing of what hostile requests cause.
func quietServer(h http.Handler) *http.Server {
	return &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols), Handler: h}
}
