// Package hookfile reads the YAML file that says who is told of questions and
// outcomes.
//
//	version: 1
//	destinations:
//	  - name: ops-bot                     # letters, digits, _ and -; a new name begins anew
//	    url: https://bot.example/askance  # or url_file, url_env
//	    secrets:                          # several while one is replaced
//	      - {file: /etc/askance/ops-bot.secret}
//	      - {env: OPS_BOT_SECRET}
//	    events: [question, escalation, outcome]
//	    tools: [refund, "github/*"]       # left out: all
//	    timeout: 15s                      # of one attempt
//	    attempts: 8                       # over about sixteen hours
//	  - name: team-chat
//	    format: slack                     # left out: askance
//	    url_file: /etc/askance/slack.url  # such an address is a secret itself
//	    events: [question]
//
// A secret is whsec_ and the base64 of 24 to 64 random bytes. It stands in a
// file or in an environment variable, never here. Keys are strict; a fault is an
// error with file, line and column.
package hookfile
