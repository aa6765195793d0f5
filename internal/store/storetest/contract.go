// Package storetest is what every store does, as tests: internal/store/sqlite and
// internal/store/postgres both pass them. What one store does and the other does not is
// tested where it is done.
//
// Law: a test here uses nothing but [Store], and every restart opens the same place
// again with the same keys.
package storetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
)

// Store is everything that a server asks of its store.
type Store interface {
	issuer.Store
	provider.Store
	approval.Store
	registry.Store
	Empty(ctx context.Context) (bool, error)
	Records(ctx context.Context) (int64, error)
	From(ctx context.Context, place int64) ([]evidence.Sealed, error)
	Begins(ctx context.Context) (int64, error)
	LatestCheckpoint(ctx context.Context) ([]byte, error)
	CosignedCheckpoint(ctx context.Context) ([]byte, error)
	KeepCosigned(ctx context.Context, signed []byte) error
	Ledger(ctx context.Context) ([]byte, error)
	KeepLedger(ctx context.Context, place int64, body []byte) error
	Index(ctx context.Context) (more bool, err error)
	Tree(ctx context.Context) tlog.HashReader
	Leaves(ctx context.Context, from, to int64) ([][]byte, error)
	Place(ctx context.Context, id string) (int64, error)
	Export(ctx context.Context, w io.Writer, keys []evidence.Key) error
	ExportBodies(ctx context.Context, w io.Writer, keys []evidence.Key) error
	ExportCosigned(ctx context.Context, w io.Writer, keys []evidence.Key, bodies bool) error
	ExportPeriod(ctx context.Context, w io.Writer, keys []evidence.Key, number int64, bodies bool) error
	Close() error
}

// Keys are what a store is opened with.
type Keys struct {
	Signer     evidence.Signer
	Batches    bool
	Origin     string
	Checkpoint note.Signer
	Random     io.Reader
}

// Place is an empty place for a store, which the function that it returns opens,
// again after it was closed.
type Place func(t *testing.T) func(ctx context.Context, keys Keys) (Store, error)

// Run runs the whole contract.
func Run(t *testing.T, place Place) {
	for name, test := range map[string]func(*testing.T, Place){
		"EXT25_AppendsByManyProducersFormOneChain": appendsByManyProducersFormOneChain,
		"EXT27_AFailedChangeLeavesNothing":         AFailedChangeLeavesNothing,
		"EXT27_AnIDThatIsUsedFailsItsChangeAlone":  anIDThatIsUsedFailsItsChangeAlone,
		"EXT27_WithoutASignatureNothingHappens":    withoutASignatureNothingHappens,
		"EXT27_AFailedStatementIsItsChangesAlone":  aFailedStatementIsItsChangesAlone,
		"EXT27_WhoGaveUpIsNotRun":                  whoGaveUpIsNotRun,
		"EXT22_ChainsGoOnAfterAStart":              chainsGoOnAfterAStart,
		"ATK71_OutcomesOfTheirOwnChainOnce":        outcomesOfTheirOwnChainOnce,
		"EXT22_SealedRecordsGoOnOrAreRefused":      sealedRecordsGoOnOrAreRefused,
		"EXT23_BatchesEndSigned":                   batchesEndSigned,
		"EXT24_ChainsGoOnBehindAnArchive":          chainsGoOnBehindAnArchive,
		"EXT24_WhatWasArchivedIsElsewhere":         whatWasArchivedIsElsewhere,
		"EXT34_AKeyIsAsOldAsItIs":                  AKeyIsAsOldAsItIs,
		"EXT35_WhatIsPublicOfTheLog":               whatIsPublicOfTheLog,
		"ATK42_SettledOnce":                        SettledOnce,
		"SEP20_TheLaterEndOfARevocationCounts":     theLaterEndOfARevocationCounts,
		"AClosedStoreWritesNothing":                aClosedStoreWritesNothing,
		"AnotherLogKeyIsRefused":                   anotherLogKeyIsRefused,
		"DataThatWasRead":                          dataThatWasRead,
		"EXT20_ALedgerIsKeptAsAWhole":              aLedgerIsKeptAsAWhole,
		"ACapabilityComesBackAsItWas":              aCapabilityComesBackAsItWas,
		"SEP20_AStartReadsWhatIsInForce":           aStartReadsWhatIsInForce,
		"SEP20_RevocationsAreReadInPages":          revocationsAreReadInPages,
		"RevocationsHaveNoGaps":                    revocationsHaveNoGaps,
		"FreezesShareTheSequence":                  freezesShareTheSequence,
		"TheFirstOwnerOfATaskStays":                theFirstOwnerOfATaskStays,
		"TheTasksOfATenantAreItsOwn":               theTasksOfATenantAreItsOwn,
		"ATaskIsNamedByACapabilityAlone":           aTaskIsNamedByACapabilityAlone,
		"ModeIsWhatWasSetLast":                     modeIsWhatWasSetLast,
		"WhatIsHeld":                               whatIsHeld,
		"TreesOfCapabilities":                      treesOfCapabilities,
		"CapabilitiesIssuedAfterATime":             issuedAfter,
		"PagesOfLiveCapabilities":                  livePages,
		"NamesAreComparedBytewise":                 namesAreComparedBytewise,
		"RecordsAreSelected":                       recordsAreSelected,
		"RecordsAreSelectedByTheirMembers":         recordsAreSelectedByTheirMembers,
		"RecordsInPages":                           recordsInPages,
		"EXT21_SearchesWithAnIndexFindTheSame":     searchesWithAnIndexFindTheSame,
		"EXT21_AnIndexBehindAnArchive":             anIndexBehindAnArchive,
		"RecordsThatCameLateAreFoundByTheirTime":   recordsThatCameLateAreFoundByTheirTime,
		"BodiesAreStoredAndErased":                 bodiesAreStoredAndErased,
		"GatewaysAndTheirTokens":                   gatewaysAndTheirTokens,
		"LinksAndStatusPlaces":                     linksAndStatusPlaces,
		"HostsAndAgents":                           hostsAndAgents,
		"ApprovalsOfAgents":                        approvalsOfAgents,
		"QuestionsAndCalls":                        questionsAndCalls,
		"HeldTasksOfAnOwner":                       heldTasksOfAnOwner,
		"Messages":                                 messages,
		"Listings":                                 listings,
		"TimesAreTheCallers":                       timesAreTheCallers,
		"TwoChangesOfOneThingAreOneAfterTheOther":  twoChangesOfOneThingAreOneAfterTheOther,
		"AViewIsOneState":                          aViewIsOneState,
		"RecordersAndChains":                       recordersAndChains,
	} {
		t.Run(name, func(t *testing.T) { test(t, place) })
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a place with keys, and what a stranger pins to verify its evidence.
type fixture struct {
	keys  Keys
	key   evidence.Key
	trust evidence.Trust
	again func(context.Context, Keys) (Store, error)
}

func newFixture(t *testing.T, place Place) fixture {
	t.Helper()
	recordKey := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	key := must(evidence.NewKey(recordKey.Public(), "serve"))
	checkpoint, verifier, err := evidence.NewLogSigner("example.org/log", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return fixture{
		keys: Keys{Signer: must(evidence.NewEd25519Signer(recordKey)), Origin: "example.org/log", Checkpoint: checkpoint, Random: rand.Reader},
		key:  key, again: place(t),
		trust: evidence.Trust{CheckpointKeys: []string{verifier}, RecordKeys: []evidence.PinnedKey{{Key: key, Agents: []string{"*"}}}},
	}
}

// open opens the place, until the test ends.
func (f fixture) open(t *testing.T) Store {
	t.Helper()
	s, err := f.again(t.Context(), f.keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// verify exports the store's evidence and verifies it as a stranger would.
func (f fixture) verify(t *testing.T, s Store) evidence.Report {
	t.Helper()
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out, []evidence.Key{f.key}); err != nil {
		t.Fatal(err)
	}
	return must(evidence.Verify(&out, f.trust))
}

// wantLog verifies that the log is whole and has so many records and chains.
func (f fixture) wantLog(t *testing.T, s Store, records, chains int) {
	t.Helper()
	report := f.verify(t, s)
	if report.Verdict() != evidence.OK || report.Records != records || len(report.Chains) != chains {
		t.Errorf("%d records, %d chains, %+v; want %d and %d", report.Records, len(report.Chains), report.Problems, records, chains)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
