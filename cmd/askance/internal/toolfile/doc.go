// Package toolfile reads the YAML file that declares an engine's tools.
//
//	version: 1
//	tools:
//	  - name: refund
//	    description: Pays a charge back.
//	    placement: remote        # local (default), remote, external
//	    idempotent: true         # a lost attempt is tried again under the same key
//	    concurrency_safe: true   # runs beside other safe calls of one proposal
//	    read_only: false         # true allows it wherever no rule is about it
//	    lease: 10s               # silence after which the owner counts as dead; 500ms or more
//	    timeout: 1m              # longest run of one attempt
//	    offer_timeout: 10m       # an item that nobody started is offered again
//	    queue_timeout: 1h        # then it is handed to a person
//	    max_attempts: 3          # of an idempotent tool
//	    backoff: 1s              # before the second attempt, then doubling
//	    input_schema: {type: object}
//	  - name: Bash
//	    kind: bash               # what AgentScope's rules mean for it; see package permission/agentscope
//	    compat: strict           # as upstream decides, hazards included; left out: guarded
//	    home: /home/dev          # home folder of the user as whom it runs; local tools have this engine's
//	  - name: uptime
//	    command: [uptime, -p]    # only of local tools: the program that runs it
//	    input_schema: {type: object, additionalProperties: false}
//
// Keys are strict and may occur once; a fault is an error with file, line and
// column. A JSON file of the same shape is read as well.
package toolfile
