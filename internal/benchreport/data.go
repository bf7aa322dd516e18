package main

// data holds what one run measured.
type data struct {
	Date        string     `json:"date"`
	Commit      string     `json:"commit"`
	Go          string     `json:"go"`
	System      string     `json:"system"`
	CPU         string     `json:"cpu"`
	CPUs        int        `json:"cpus"`
	MemoryBytes float64    `json:"memory_bytes"`
	SyncMicros  float64    `json:"sync_us"` // median of writing and syncing 4 kB
	LoadBefore  float64    `json:"load_before"`
	LoadAfter   float64    `json:"load_after"` // with the load of the run itself
	Concurrency int        `json:"concurrency"`
	Seconds     float64    `json:"seconds"` // of each workload
	Reports     []report   `json:"reports"`
	Open        *open      `json:"open,omitempty"`
	Jobs        []job      `json:"jobs"`
	Decisions   []decision `json:"decisions"`
	Missing     []missing  `json:"missing"`
}

// report is the part of askance bench --json that the page uses.
type report struct {
	Durability string     `json:"durability"`
	Raw        raw        `json:"raw"`
	Workloads  []workload `json:"workloads"`
	Open       *open      `json:"open,omitempty"`
}

type raw struct {
	RecordBytes   int     `json:"record_bytes"`
	Pipelined     float64 `json:"pipelined_per_s"`
	Sequential    float64 `json:"sequential_per_s"`
	P50           float64 `json:"sequential_p50_us"`
	PipelinedCPU  float64 `json:"pipelined_cpu_us"`
	SequentialCPU float64 `json:"sequential_cpu_us"`
}

type workload struct {
	Name             string  `json:"name"`
	What             string  `json:"what"`
	Concurrency      int     `json:"concurrency"`
	Calls            int     `json:"calls"`
	CallsPerSecond   float64 `json:"calls_per_s"`
	P50              float64 `json:"p50_us"`
	P99              float64 `json:"p99_us"`
	RecordsPerCall   float64 `json:"records_per_call"`
	ShareOfPipelined float64 `json:"share_of_pipelined"`
	TimesSequential  float64 `json:"times_sequential"`
	P50OverRaw       float64 `json:"p50_over_raw"`
	CPUOverRaw       float64 `json:"cpu_over_raw"`
	PerCall          cost    `json:"per_call"`
	Stages           []stage `json:"stages"`
}

type cost struct {
	CPU            float64 `json:"cpu_us"`
	Allocations    float64 `json:"allocations"`
	AllocatedBytes float64 `json:"allocated_bytes"`
	JournalBytes   float64 `json:"journal_bytes"`
	StoredBytes    float64 `json:"stored_bytes"`
	MessagesIn     float64 `json:"messages_in"`
	MessagesOut    float64 `json:"messages_out"`
}

type stage struct {
	Name  string  `json:"name"`
	What  string  `json:"what"`
	Share float64 `json:"share"`
	CPU   float64 `json:"cpu_us"`
}

type open struct {
	Requests      int     `json:"requests"`
	HeapBytes     float64 `json:"heap_bytes"`
	ResidentBytes float64 `json:"resident_bytes"`
}

// job is one row of the module peers.
type job struct {
	System      string  `json:"system"`
	Version     string  `json:"version"`
	Durability  string  `json:"durability"`
	What        string  `json:"what"`
	Concurrency int     `json:"concurrency"`
	Jobs        int     `json:"jobs"`
	PerSecond   float64 `json:"jobs_per_s"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	CPU         float64 `json:"cpu_us"`
	ServerCPU   float64 `json:"server_cpu_us"`
	Failed      string  `json:"failed,omitempty"`
}

// decision is how long a decision takes with a number of rules, in microseconds.
type decision struct {
	Rules      int     `json:"rules"`
	Askance    float64 `json:"askance_us"`
	Cedar      float64 `json:"cedar_us"`
	OPA        float64 `json:"opa_us"`
	CedarReady float64 `json:"cedar_ready_us"`
	OPAReady   float64 `json:"opa_ready_us"`
}

// missing is what could not run, and why.
type missing struct {
	What string `json:"what"`
	Why  string `json:"why"`
}
