package powerboxadk

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"
)

// streams is a tool that answers in parts (functiontool.NewStreaming). The ADK calls
// no callback about it, so that nothing is asked.
type streams interface {
	tool.Tool
	Declaration() *genai.FunctionDeclaration
	RunStream(ctx agent.Context, args any) iter.Seq2[string, error]
}

// collected is such a tool as one that answers once, which is what the ADK makes of
// it, too, where there is no live session.
type collected struct {
	tool.Tool
	of streams
}

// maxCollected bounds what a tool answers in parts, in bytes.
const maxCollected = 16 << 20

// Declaration is the tool's.
func (c *collected) Declaration() *genai.FunctionDeclaration { return c.of.Declaration() }

// Run runs the tool to its end.
func (c *collected) Run(ctx agent.Context, args any) (map[string]any, error) {
	var all strings.Builder
	var failed error
	for part, err := range c.of.RunStream(ctx, args) {
		if failed = err; failed == nil && all.Len()+len(part) > maxCollected {
			failed = fmt.Errorf("powerbox: the tool answers with more than %d bytes", maxCollected)
		}
		if failed != nil {
			break
		}
		all.WriteString(part)
	}
	if actions := ctx.Actions(); len(actions.RequestedToolConfirmations) > 0 {
		clear(actions.RequestedToolConfirmations) // when it is confirmed it runs as it is
		actions.SkipSummarization = false         // the model is told
		failed = errors.New("powerbox: a tool that answers in parts cannot be confirmed: nothing would be asked about it then")
	}
	if failed != nil {
		return nil, failed
	}
	return map[string]any{"result": all.String()}, nil
}

// collect has tools that answer in parts be asked about.
func collect(req *model.LLMRequest) {
	for name, t := range req.Tools {
		if s, ok := t.(streams); ok {
			req.Tools[name] = &collected{s, s}
		}
	}
}

// live says why a live session of an agent is not held: the ADK runs the steps of
// workflows there without a callback, and tools that answer in parts.
func live(a agent.Agent) error {
	tools, open, ok := listOf(a)
	switch {
	case !ok:
		return fmt.Errorf("powerbox: agent %s has no live session here: it is no agent of one model, and nothing would be asked about its steps", a.Name())
	case !open:
		return fmt.Errorf("powerbox: agent %s has no live session here: its toolsets could have tools about which nothing would be asked", a.Name())
	}
	for _, t := range tools {
		if _, ok := t.(streams); ok {
			return fmt.Errorf("powerbox: agent %s has no live session here: nothing would be asked about its tool %s, which answers in parts", a.Name(), t.Name())
		}
	}
	return nil
}

// listOf are an agent's tools, open where there are no others, ok where it is an
// agent that has tools. The ADK shows them to itself alone: they are read out of its
// exported fields.
func listOf(a agent.Agent) (tools []tool.Tool, open, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(a))
	if v.Kind() != reflect.Struct {
		return nil, false, false
	}
	state := v.FieldByName("State")
	if !state.IsValid() || state.Kind() != reflect.Struct {
		return nil, false, false
	}
	list := state.FieldByName("Tools")
	if !list.IsValid() || !list.CanInterface() {
		return nil, false, false
	}
	tools, open = list.Interface().([]tool.Tool)
	sets := state.FieldByName("Toolsets")
	return tools, open && (!sets.IsValid() || sets.Len() == 0), true
}
