package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/version"
	"github.com/boocode/filestore/manager"
)

// The formats of other tools in which blame prints.
const (
	agentTrace = "agent-trace"
	gitAI      = "git-ai"
)

var blameFormats = map[string]func(ctx context.Context, p *place, b *manager.Blame) error{
	agentTrace: printAgentTrace, gitAI: printGitAI,
}

// An agentTraceRange is a range of an Agent Trace 0.1.
type agentTraceRange struct {
	StartLine int `json:"start_line"`
	EndLine   int `json:"end_line"`
}

type agentTraceContributor struct {
	Type    string `json:"type"` // human, ai, mixed or unknown
	ModelID string `json:"model_id,omitempty"`
}

type agentTraceConversation struct {
	Contributor agentTraceContributor `json:"contributor"`
	Ranges      []agentTraceRange     `json:"ranges"`
}

// printAgentTrace prints a record of Agent Trace 0.1: a conversation for each owner, in the
// order of their first lines. What the format has no place for is in its metadata.
func printAgentTrace(_ context.Context, p *place, b *manager.Blame) error {
	list, owners := []*agentTraceConversation{}, []manager.BlameOwner{} // of an empty file, too
	byOwner := make(map[string]*agentTraceConversation)
	for _, r := range b.Ranges {
		key := fmt.Sprintln(r.Owner.Kind, r.Owner.Session, r.Owner.Turn, r.Owner.Entry, r.Owner.Certainty)
		c := byOwner[key]
		if c == nil {
			c = &agentTraceConversation{Contributor: contributorOf(&r.Owner)}
			byOwner[key] = c
			list, owners = append(list, c), append(owners, r.Owner)
		}
		c.Ranges = append(c.Ranges, agentTraceRange{r.Start, r.End})
	}
	id := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", p.project.Worktree, b.Path, b.Text))
	id[6], id[8] = 0x80|id[6]&0x0f, 0x80|id[8]&0x3f // a UUID of version 8, the same for the same file
	record := map[string]any{
		"version":   "0.1",
		"id":        fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		"timestamp": time.Now().UTC().Format(time.RFC3339),
		"tool":      map[string]string{"name": "snapctl", "version": version.String()},
		"files":     []any{map[string]any{"path": b.Path, "conversations": list}},
		"metadata":  map[string]any{"dev.boo": map[string]any{"rev": b.Rev, "owners": owners}},
	}
	if b.Head != "" {
		record["vcs"] = map[string]string{"type": "git", "revision": b.Head}
	}
	return p.app.printJSON(record)
}

// maxModelID is how many characters the format has for a model.
const maxModelID = 250

func contributorOf(o *manager.BlameOwner) agentTraceContributor {
	switch o.Kind {
	case "turn":
		if utf8.RuneCountInString(o.Model) > maxModelID { // a part of it would be another
			return agentTraceContributor{Type: "ai"}
		}
		return agentTraceContributor{"ai", o.Model}
	case "user":
		return agentTraceContributor{Type: "human"}
	case "contested":
		return agentTraceContributor{Type: "mixed"}
	}
	return agentTraceContributor{Type: "unknown"}
}

// A gitAIPrompt is a prompt record of authorship/3.0.0.
type gitAIPrompt struct {
	AgentID    gitAIAgent     `json:"agent_id"`
	Messages   []gitAIMessage `json:"messages"`
	Additions  int            `json:"total_additions"`
	Deletions  int            `json:"total_deletions"`
	Accepted   int            `json:"accepted_lines"`
	Overridden int            `json:"overridden_lines"`

	ranges []string
}

type gitAIAgent struct {
	Tool  string `json:"tool"`
	ID    string `json:"id"`
	Model string `json:"model"`
}

type gitAIMessage struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Timestamp string `json:"timestamp,omitempty"`
}

// printGitAI prints an authorship log of git-ai, authorship/3.0.0, for git notes of the
// commit that is checked out: lines of turns, by session. Others are left out, as it leaves
// out what it has not seen written.
func printGitAI(_ context.Context, p *place, b *manager.Blame) error {
	prompts := make(map[string]*gitAIPrompt)
	for _, r := range b.Ranges {
		o := &r.Owner
		if o.Kind != "turn" {
			continue
		}
		tool := cmp.Or(o.Agent, "unknown")
		sum := sha256.Sum256([]byte(tool + ":" + o.Session))
		key := hex.EncodeToString(sum[:8])
		if prompts[key] == nil {
			prompts[key] = &gitAIPrompt{AgentID: gitAIAgent{tool, o.Session, o.Model}, Messages: []gitAIMessage{}}
		}
		prompts[key].add(&r)
	}
	out := p.app.out
	if len(prompts) > 0 {
		name := b.Path
		if strings.ContainsAny(name, " \t\n") {
			name = `"` + name + `"`
		}
		fmt.Fprintln(out, name)
		for _, key := range slices.Sorted(maps.Keys(prompts)) {
			fmt.Fprintf(out, "  %s %s\n", key, strings.Join(prompts[key].ranges, ","))
		}
	}
	text, err := json.MarshalIndent(map[string]any{"schema_version": "authorship/3.0.0", "base_commit_sha": b.Head,
		"prompts": prompts}, "", "  ")
	fmt.Fprintf(out, "---\n%s\n", text)
	return err
}

// add adds lines of a turn.
func (p *gitAIPrompt) add(r *manager.BlameRange) {
	n := r.End - r.Start + 1
	p.Additions, p.Accepted = p.Additions+n, p.Accepted+n
	text := fmt.Sprint(r.Start)
	if n > 1 {
		text += fmt.Sprint("-", r.End)
	}
	p.ranges = append(p.ranges, text)
	o := &r.Owner
	m := gitAIMessage{"user", o.Title, o.Time.Format(time.RFC3339)}
	if o.Title != "" && !slices.Contains(p.Messages, m) {
		p.Messages = append(p.Messages, m)
	}
}
