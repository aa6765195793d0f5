package guard

import "context"

// Handoffs returns a Swarm-style function, one that hands over to another agent by
// returning it, with its targets validated before they are returned (GATE-8).
//
// from is the agent whose function it is. target returns the name of the agent in
// a result, "" for a result that hands nothing over. The function has to run to
// tell whom it returns: it should do nothing besides. A result outside the scope of
// from is never returned; the zero Out and a [*Refused] replace it.
func Handoffs[In, Out any](g *Gate, from string, target func(Out) string, function func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		var none Out
		out, err := function(ctx, in)
		if err != nil {
			return none, err
		}
		to := target(out)
		if to == "" {
			return out, nil
		}
		d, err := g.Check(ctx, Attempt{From: from, To: to})
		if err != nil {
			return none, err
		}
		// Handing over is all that was asked about, and it is done by returning.
		if err := g.Outcome(ctx, d, nil); err != nil {
			return none, err
		}
		return out, nil
	}
}
