package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// service is a bank as its author would write it: it knows nothing of agents, and
// answers what the provider in front of it lets through.
type service struct {
	url string // its own, as the provider knows it

	mu       sync.Mutex
	balances map[string]float64
	jobs     map[string]int // polls so far
}

func newService() *service {
	return &service{balances: map[string]float64{"acc_123": 4280.13, "acc_456": 120}, jobs: map[string]int{}}
}

// request is what the provider sends.
type request struct {
	Capability string         `json:"capability"`
	Arguments  map[string]any `json:"arguments"`
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /do", s.do)
	mux.HandleFunc("GET /jobs/{job}", s.job)
	return mux
}

func (s *service) do(w http.ResponseWriter, r *http.Request) {
	var in request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	switch in.Capability {
	case "check_balance":
		s.balance(w, in)
	case "list_accounts":
		answer(w, http.StatusOK, map[string]any{"data": []map[string]string{
			{"account_id": "acc_123", "name": "Everyday", "type": "checking"}, {"account_id": "acc_456", "name": "Rainy day", "type": "savings"},
		}})
	case "transfer_money":
		s.transfer(w, in)
	case "slow_job":
		s.start(w)
	case "ticker":
		ticker(w, r)
	default:
		refuse(w, http.StatusNotFound, "invalid_request", "the bank does not do "+in.Capability)
	}
}

func (s *service) balance(w http.ResponseWriter, in request) {
	id, _ := in.Arguments["account_id"].(string)
	s.mu.Lock()
	balance, ok := s.balances[id]
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusBadRequest, "invalid_request", "there is no account "+id)
		return
	}
	answer(w, http.StatusOK, map[string]any{"data": map[string]any{"account_id": id, "balance": balance, "currency": "USD"}})
}

// transfer moves money from the first account.
func (s *service) transfer(w http.ResponseWriter, in request) {
	amount, _ := in.Arguments["amount"].(float64)
	to, _ := in.Arguments["destination_account"].(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.balances["acc_123"] < amount {
		refuse(w, http.StatusBadRequest, "limit_exceeded", "the account does not hold that much")
		return
	}
	s.balances["acc_123"] -= amount
	s.balances[to] += amount
	answer(w, http.StatusOK, map[string]any{"data": map[string]any{
		"transfer_id": "tr_" + strconv.Itoa(len(s.balances)), "status": "completed", "amount": amount, "currency": in.Arguments["currency"],
	}})
}

// start begins a job that is done when it has been asked about twice.
func (s *service) start(w http.ResponseWriter) {
	s.mu.Lock()
	id := "job-" + strconv.Itoa(len(s.jobs)+1)
	s.jobs[id] = 0
	s.mu.Unlock()
	w.Header().Set("Retry-After", "1")
	answer(w, http.StatusAccepted, map[string]any{"status": "pending", "status_url": s.url + "/jobs/" + id})
}

func (s *service) job(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("job")
	s.mu.Lock()
	defer s.mu.Unlock()
	polls, ok := s.jobs[id]
	if !ok {
		refuse(w, http.StatusNotFound, "invalid_request", "there is no job "+id)
		return
	}
	if s.jobs[id] = polls + 1; polls+1 < 2 {
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusAccepted, map[string]any{"status": "pending", "status_url": s.url + "/jobs/" + id})
		return
	}
	answer(w, http.StatusOK, map[string]any{"status": "completed", "result": map[string]any{"report": "4 pages", "job": id}})
}

// ticker sends three prices.
func ticker(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for i := range 3 {
		fmt.Fprintf(w, "data: {\"symbol\":\"USD/EUR\",\"price\":%.4f}\n\n", 0.92+float64(i)/1000)
		if flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	fmt.Fprint(w, "event: done\ndata: {\"ticks\":3}\n\n")
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has gone: there is no caller to tell
}

func refuse(w http.ResponseWriter, code int, what, message string) {
	answer(w, code, map[string]string{"error": what, "message": message})
}
