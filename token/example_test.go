package token_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

func key() *token.PrivateKey {
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
}

// tools are documents.read of some collections. A tools map knows exact names
// and required arguments only.
func tools(collections ...powerbox.Value) []powerbox.Clause {
	op, err := powerbox.ParseOperation("documents.read")
	if err != nil {
		panic(err)
	}
	shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{
		Name: "collection", Required: true, Constraint: powerbox.OneOf{Values: collections},
	})
	if err != nil {
		panic(err)
	}
	return []powerbox.Clause{{Pattern: powerbox.ExactPattern(op), Shape: shape}}
}

// An issuer gives an agent a token, which the agent narrows for another one
// without asking anybody. The other one calls with a proof, and the gate needs
// nothing but the issuer's public key.
func Example() {
	issuer, orchestrator, reader := key(), key(), key()
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

	root, err := token.Mint(issuer, token.Root{
		ID: "root-1", Issuer: "https://powerbox.example", IssuedAt: now, Expires: now.Add(15 * time.Minute),
		MaxDepth: 1, Holder: orchestrator.Public(), Tools: tools(powerbox.String("reports"), powerbox.String("minutes")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := token.Options{Now: now, Revoked: token.UnsafeNothingRevoked}
	trusted := token.NewKeySet(issuer.Public()).Of("https://powerbox.example")
	held, err := verify([]string{root}, trusted, options)
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = token.Derive(held, orchestrator, token.Narrowing{
		ID: "leaf-1", Now: now, Holder: reader.Public(), Tools: tools(powerbox.String("salaries")),
	})
	fmt.Println("wider:", errors.Is(err, powerbox.ErrDenied), err)

	leaf, err := token.Derive(held, orchestrator, token.Narrowing{
		ID: "leaf-2", Now: now, Holder: reader.Public(), Tools: tools(powerbox.String("reports")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The reader calls, and the gate looks at the chain and the proof.
	arguments := powerbox.Object(powerbox.Member{Name: "collection", Value: powerbox.String("reports")})
	received, err := token.ParseChain([]string{root, leaf})
	if err != nil {
		fmt.Println(err)
		return
	}
	proof, err := received.SignProof(reader, token.Proof{
		ID: "proof-1", IssuedAt: now, Operation: "documents.read", Arguments: arguments,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain, err := verify([]string{root, leaf}, trusted, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	operation := chain.Tools()[0].Pattern.Name()
	op, _ := powerbox.ParseOperation(operation)
	_, err = chain.CheckProof(proof, token.Expected{Now: now, Operation: op, Arguments: arguments})
	fmt.Println("proof:", err)
	attempt, err := powerbox.Invocation(op, arguments)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(operation, arguments, "allowed:", powerbox.Decide(attempt, chain.Authority(), now).Allowed)

	// A chain is only as good as every token in it.
	options.Revoked = func(id string) bool { return id == "root-1" }
	_, err = verify([]string{root, leaf}, trusted, options)
	fmt.Println("after the root is revoked:", err)
	// Output:
	// wider: true capability_widened: goes beyond its parent: operation "documents.read": argument "collection" would go beyond its one_of constraint
	// proof: <nil>
	// documents.read {"collection":"reports"} allowed: true
	// after the root is revoked: token 0: revoked: has been revoked
}

func verify(chain []string, trusted token.KeySet, o token.Options) (token.Verified, error) {
	parsed, err := token.ParseChain(chain)
	if err != nil {
		return token.Verified{}, err
	}
	return parsed.Verify(trusted, o)
}
