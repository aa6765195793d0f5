package reliability

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// direct is a caller that talks to one gateway past the balancer.
type direct struct {
	client *holder.Client
	agent  holder.Agent
	held   holder.Capability
}

// newDirect has a caller get a capability the usual way, for calls at one gateway.
func (t *Town) newDirect(ctx context.Context, g *gateway) (*direct, error) {
	key, err := token.GenerateKey(token.Ed25519, t.Random)
	if err != nil {
		return nil, err
	}
	d := &direct{client: &holder.Client{
		Key: key, HTTP: &http.Client{Transport: noting{&http.Transport{}, t.ledger}, Timeout: patience}, Now: t.Now, Random: t.Random,
		Session: func(context.Context, string) (string, error) { return session(t.Workers - 1), nil },
	}}
	err = until(ctx, 20*time.Second, func() error {
		if d.agent, err = d.client.Discover(ctx, t.doors.url+"/agents/documents"); err != nil {
			return err
		}
		got, err := d.client.Request(ctx, d.agent, holder.RequestParams{
			Grants: []string{"documents:read"}, Purpose: "A trial", Query: powerbox.Object(powerbox.Member{Name: "collection", Value: powerbox.String("reports")}),
		})
		if err == nil {
			d.held = got[0]
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("a caller for %s: %w", g.name, err)
	}
	// From here on the balancer's address leads to the gateway.
	d.client.HTTP.Transport = noting{&http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, g.address)
	}}, t.ledger}
	return d, nil
}

// search makes a call and returns the reason why it was denied, "" where it went
// through.
func (d *direct) search(ctx context.Context) (string, error) {
	_, err := d.client.Invoke(ctx, d.agent, d.held, "search_documents", powerbox.Object())
	var denied *holder.Denied
	if errors.As(err, &denied) {
		return string(denied.Code), nil
	}
	return "", err
}

// shipped waits until the evidence has every decision that was told so far.
func (t *Town) shipped(ctx context.Context) error {
	told := t.ledger.told()
	return until(ctx, settles, func() error {
		_, _, err := t.recorded(ctx, told)
		return err
	})
}

// retire closes a gateway for good. That it is not answered changes nothing here.
func (t *Town) retire(g *gateway) {
	var all []struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if t.operate(ctx, http.MethodGet, "/v1/gateways", nil, &all) != nil {
		return
	}
	for _, one := range all {
		if strings.Contains(one.Key, g.id) || one.ID == g.id {
			_ = t.operate(ctx, http.MethodDelete, "/v1/gateways/"+one.ID, nil, nil)
		}
	}
}
