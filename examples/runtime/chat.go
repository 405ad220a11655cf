package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/boocode/filestore/checkpoint"

	_ "modernc.org/sqlite"
)

// A chat is a conversation in the database. Each method is a statement or two.
type chat struct {
	db *sql.DB
	id string
}

// turnsTable has what each answer did to the files, as the manager names it.
// Package checkpoint makes the rest of the tables. A row goes with its message,
// so a restore has to know the table, or Undo could not bring the row back: see
// schema.
const turnsTable = `CREATE TABLE IF NOT EXISTS turns (
	message_id TEXT PRIMARY KEY REFERENCES messages(id) ON DELETE CASCADE,
	since TEXT NOT NULL,
	step TEXT NOT NULL
)`

var schema = checkpoint.Schema{Parts: []checkpoint.Part{{Table: "message_parts"}, {Table: "turns"}}}

func openDatabase(path string) (*sql.DB, error) {
	return sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
}

// begin makes the rows of a session that is new, and says of what an earlier
// process left at work that it is not any more.
func (c *chat) begin(ctx context.Context, session, worktree string) error {
	return errors.Join(
		c.exec(ctx, `INSERT INTO chats (id, title) VALUES (?, ?) ON CONFLICT DO NOTHING`, c.id, session),
		c.exec(ctx, `INSERT INTO worktrees (id, session_id, path) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET path = excluded.path`, session, session, worktree),
		c.exec(ctx, `INSERT INTO agent_sessions (id, chat_id, agent, status) VALUES (?, ?, 'scripted', 'idle') ON CONFLICT DO NOTHING`, c.id, c.id),
		c.exec(ctx, `UPDATE agent_sessions SET status = 'crashed' WHERE chat_id = ? AND status = 'running'`, c.id),
		c.exec(ctx, `UPDATE messages SET status = 'interrupted' WHERE chat_id = ? AND status = 'streaming'`, c.id))
}

func (c *chat) exec(ctx context.Context, query string, args ...any) error {
	_, err := c.db.ExecContext(ctx, query, args...)
	return err
}

func (c *chat) setAgent(ctx context.Context, status string) error {
	return c.exec(ctx, `UPDATE agent_sessions SET status = ? WHERE chat_id = ?`, status, c.id)
}

// ask adds a message of the user.
func (c *chat) ask(ctx context.Context, text string) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	id := rand.Text()
	if _, err := tx.ExecContext(ctx, `INSERT INTO messages (id, chat_id, role) VALUES (?, ?, 'user')`, id,
		c.id); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx,
		`INSERT INTO message_parts (id, message_id, type, content) VALUES (?, ?, 'text', ?)`,
		rand.Text(), id, text); err != nil {
		return err
	}
	return tx.Commit()
}

// answer adds the message of an agent that is about to speak.
func (c *chat) answer(ctx context.Context) (id string, err error) {
	id = rand.Text()
	return id, c.exec(ctx, `INSERT INTO messages (id, chat_id, role, status) VALUES (?, ?, 'assistant', 'streaming')`,
		id, c.id)
}

func (c *chat) addPart(ctx context.Context, message, typ, content string) (id string, err error) {
	id = rand.Text()
	return id, c.exec(ctx, `INSERT INTO message_parts (id, message_id, position, type, content)
		SELECT ?, ?, count(*), ?, ? FROM message_parts WHERE message_id = ?`, id, message, typ, content, message)
}

// stream adds text to a part.
func (c *chat) stream(ctx context.Context, part, text string) error {
	return c.exec(ctx, `UPDATE message_parts SET content = content || ? WHERE id = ?`, text, part)
}

// end says how an answer ended, and between which points of the manager's it
// stands; step is "" if it changed no files.
func (c *chat) end(ctx context.Context, message, status, since, step string) error {
	return errors.Join(
		c.exec(ctx, `UPDATE messages SET status = ? WHERE id = ?`, status, message),
		c.exec(ctx, `INSERT INTO turns (message_id, since, step) VALUES (?, ?, ?)`, message, since, step))
}

// lastTurn returns the points between which the newest answer stands; "" if it
// changed no files, or the process died in it.
func (c *chat) lastTurn(ctx context.Context) (since, step string, err error) {
	err = c.db.QueryRowContext(ctx, `SELECT coalesce(t.since, ''), coalesce(t.step, '') FROM messages m LEFT JOIN turns t ON t.message_id = m.id
		WHERE m.chat_id = ? AND m.role = 'assistant' ORDER BY m.seq DESC LIMIT 1`, c.id).Scan(&since, &step)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return since, step, err
}

// A message is one of the transcript.
type message struct {
	id, role, status string
	parts            []part
}

// A part is text, or what a tool was asked to do: then typ is the tool.
type part struct{ typ, content string }

// messages returns the transcript.
func (c *chat) messages(ctx context.Context) (list []message, err error) {
	rows, err := c.db.QueryContext(ctx, `SELECT m.id, m.role, m.status, coalesce(p.type, ''), coalesce(p.content, '')
		FROM messages m LEFT JOIN message_parts p ON p.message_id = m.id WHERE m.chat_id = ? ORDER BY m.seq, p.position`, c.id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var m message
		var p part
		if err := rows.Scan(&m.id, &m.role, &m.status, &p.typ, &p.content); err != nil {
			return nil, err
		}
		if len(list) == 0 || list[len(list)-1].id != m.id {
			list = append(list, m)
		}
		if p.typ != "" {
			last := &list[len(list)-1]
			last.parts = append(last.parts, p)
		}
	}
	return list, rows.Err()
}
