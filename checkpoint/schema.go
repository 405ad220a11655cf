package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/words"
)

// A Dialect is the SQL that a database speaks.
type Dialect string

const (
	SQLite     Dialect = "sqlite"
	PostgreSQL Dialect = "postgres" // from 13 on
)

// None as the name of a table says that the runtime has none.
const None = "-"

// A Schema names what a restore touches of the runtime's tables. The zero Schema
// is that of Options.Runtime; each empty name is its default. Names are taken to
// the letter, and may be "schema.table" in PostgreSQL.
type Schema struct {
	Chats  string `json:"chats"`   // default chats; None: checkpoints are not deleted with their chat
	ChatID string `json:"chat_id"` // default id

	Messages    string `json:"messages"`     // default messages
	MessageID   string `json:"message_id"`   // default id
	MessageChat string `json:"message_chat"` // default chat_id
	// MessageOrder is an integer that grows from message to message of a chat, as
	// an identity does: times may be the same, and go back. In SQLite a primary key
	// must be AUTOINCREMENT, or its numbers come again. Default seq.
	MessageOrder string `json:"message_order"`

	// Parts are the tables with rows that belong to messages. Default: the table
	// message_parts, by message_id. A table that a restore would change unseen,
	// because deleting a message does so, is an error. Each wants an index on the
	// message's ID: deleting is slow without it.
	Parts []Part `json:"parts"`

	// Triggers are those of the tables above that may run when rows are deleted and
	// inserted, because they change nothing that an undo would have to bring back.
	// Others are an error.
	Triggers []string `json:"triggers"`

	Worktrees    string `json:"worktrees"`     // default worktrees
	WorktreeID   string `json:"worktree_id"`   // default id
	WorktreePath string `json:"worktree_path"` // default path

	AgentSessions string `json:"agent_sessions"` // default agent_sessions; None: there are none
	AgentChat     string `json:"agent_chat"`     // default chat_id
	AgentStatus   string `json:"agent_status"`   // default status
	Crashed       string `json:"crashed"`        // status of an agent whose backend was reset; default crashed
	Running       string `json:"running"`        // status of an agent at work, which refuses a restore; default running

	IDType string `json:"id_type"` // of IDs, in columns that Open makes; default UUID in PostgreSQL, TEXT in SQLite
}

// A Part is a table with rows that belong to messages.
type Part struct {
	Table   string `json:"table"`
	Message string `json:"message"` // the column with the message's ID; default message_id
}

const defaultParts = "message_parts"

// withDefaults returns the schema with all names.
func (s Schema) withDefaults(d Dialect) Schema {
	for _, f := range []struct {
		name *string
		def  string
	}{
		{&s.Chats, "chats"}, {&s.ChatID, "id"},
		{&s.Messages, "messages"}, {&s.MessageID, "id"}, {&s.MessageChat, "chat_id"}, {&s.MessageOrder, "seq"},
		{&s.Worktrees, "worktrees"}, {&s.WorktreeID, "id"}, {&s.WorktreePath, "path"},
		{&s.AgentSessions, "agent_sessions"}, {&s.AgentChat, "chat_id"}, {&s.AgentStatus, "status"},
		{&s.Crashed, "crashed"}, {&s.Running, "running"},
	} {
		if *f.name == "" {
			*f.name = f.def
		}
	}
	if s.Parts == nil {
		s.Parts = []Part{{Table: defaultParts}}
	}
	parts := make([]Part, len(s.Parts))
	for i, p := range s.Parts {
		if p.Message == "" {
			p.Message = "message_id"
		}
		parts[i] = p
	}
	s.Parts = parts
	if s.IDType == "" {
		s.IDType = map[Dialect]string{PostgreSQL: "UUID"}[d]
	}
	if s.IDType == "" {
		s.IDType = "TEXT"
	}
	return s
}

var (
	validName = words.Pattern(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)
	validType = words.Pattern(`^[A-Za-z]+(\([0-9]+\))?$`)
)

// check refuses names that are none: they become part of statements.
func (s *Schema) check() error {
	names := []string{s.ChatID, s.Messages, s.MessageID, s.MessageChat, s.MessageOrder, s.Worktrees, s.WorktreeID,
		s.WorktreePath, s.AgentChat, s.AgentStatus}
	for _, table := range []string{s.Chats, s.AgentSessions} {
		if table != None {
			names = append(names, table)
		}
	}
	for _, p := range s.Parts {
		names = append(names, p.Table, p.Message)
	}
	for _, n := range names {
		if !validName().MatchString(n) {
			return fmt.Errorf("schema: %q is no name of a table or column", n)
		}
	}
	tables := []string{ownTable, s.Messages, s.Worktrees, s.Chats, s.AgentSessions}
	for _, p := range s.Parts {
		tables = append(tables, p.Table)
	}
	tables = slices.DeleteFunc(tables, func(t string) bool { return t == None })
	slices.Sort(tables)
	if len(slices.Compact(slices.Clone(tables))) < len(tables) {
		return fmt.Errorf("schema: a table is named twice: %s", strings.Join(tables, ", "))
	}
	if !validType().MatchString(s.IDType) {
		return fmt.Errorf("schema: %q is no type of IDs", s.IDType)
	}
	return nil
}

// quote returns a name as statements have it.
func quote(name string) string {
	return `"` + strings.ReplaceAll(name, ".", `"."`) + `"`
}

// A column is one of a table.
type column struct {
	name, typ string
	def       sql.NullString // its default, as an expression
}

// columns returns the columns of a table that can be written; none if there is
// no such table.
func (d *DB) columns(ctx context.Context, q querier, table string) ([]column, error) {
	query := `SELECT name, type, dflt_value FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid`
	arg := table
	if d.dialect == PostgreSQL {
		query = `SELECT attname, format_type(atttypid, atttypmod), pg_get_expr(adbin, adrelid)
			FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
			WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`
		arg = quote(table)
	}
	rows, err := q.QueryContext(ctx, d.bind(query), arg)
	if err != nil {
		return nil, fmt.Errorf("columns of %s: %w", table, err)
	}
	defer rows.Close()
	var list []column
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.typ, &c.def); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// checkTables finds out whether the runtime's tables are there with the columns
// that a restore needs.
func (d *DB) checkTables(ctx context.Context, q querier) error {
	s := &d.schema
	need := map[string][]string{
		s.Messages:      {s.MessageID, s.MessageChat, s.MessageOrder},
		s.Worktrees:     {s.WorktreeID, s.WorktreePath},
		s.Chats:         {s.ChatID},
		s.AgentSessions: {s.AgentChat, s.AgentStatus},
	}
	for _, p := range s.Parts {
		need[p.Table] = []string{p.Message}
	}
	delete(need, None)
	for table, names := range need {
		columns, err := d.columns(ctx, q, table)
		if err != nil {
			return err
		}
		if len(columns) == 0 {
			return fmt.Errorf("table %s: there is none: see Schema and Options.Runtime", table)
		}
		has := make(map[string]bool)
		for _, c := range columns {
			has[c.name] = true
		}
		if has[ofRestore] {
			return fmt.Errorf("table %s: it has a column %s, which archives need", table, ofRestore)
		}
		for _, n := range names {
			if !has[n] {
				return fmt.Errorf("table %s: there is no column %s: see Schema", table, n)
			}
		}
	}
	if d.dialect == PostgreSQL {
		return nil
	}
	again := 0 // whether numbers come again
	err := d.queryRow(ctx, q, `SELECT count(*) FROM pragma_table_info(?) i, sqlite_schema m WHERE lower(m.name) = lower(?) AND m.type = 'table'
		AND i.name = ? AND i.pk = 1 AND upper(i.type) = 'INTEGER' AND upper(m.sql) NOT LIKE '%AUTOINCREMENT%'`, s.Messages, s.Messages, s.MessageOrder).Scan(&again)
	if err == nil && again > 0 {
		err = fmt.Errorf("table %s: column %s is not AUTOINCREMENT: numbers of messages that a restore has deleted "+
			"would come again", s.Messages, s.MessageOrder)
	}
	return err
}

func partTables(s *Schema) (list []string) {
	for _, p := range s.Parts {
		list = append(list, p.Table)
	}
	return list
}

// migrate brings our tables, and if asked for those that the runtime has none of,
// to what this version needs. Each may be there.
func (d *DB) migrate(ctx context.Context) error {
	identity, now, when := "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", "clock_timestamp()", "TIMESTAMPTZ"
	if d.dialect == SQLite {
		identity, now, when = "INTEGER PRIMARY KEY AUTOINCREMENT", "(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))", "TEXT"
	}
	s := &d.schema
	own := "TEXT" // of the IDs that we make
	if strings.EqualFold(s.IDType, "UUID") {
		own = s.IDType
	}
	words := strings.NewReplacer("$identity", identity, "$now", now, "$when", when, "$id", s.IDType, "$own", own)
	return d.tx(ctx, d.altering(), func(q querier) error {
		var statements []string
		if d.opts.Runtime {
			statements = runtimeTables(s)
		}
		for _, st := range append(statements, d.opts.Tables...) {
			if _, err := q.ExecContext(ctx, words.Replace(st)); err != nil {
				return fmt.Errorf("%s: %w", firstLine(st), err)
			}
		}
		if d.opts.Runtime && d.dialect == PostgreSQL {
			if err := d.addOrder(ctx, q); err != nil {
				return err
			}
		}
		if err := d.checkTables(ctx, q); err != nil {
			return err
		}
		for _, st := range ownTables(s) {
			if _, err := q.ExecContext(ctx, words.Replace(st)); err != nil {
				return fmt.Errorf("%s: %w", firstLine(st), err)
			}
		}
		if err := d.addColumns(ctx, q); err != nil {
			return err
		}
		if _, _, err := d.checkMovable(ctx, q); err != nil || !d.opts.Runtime {
			return err
		}
		_, err := q.ExecContext(ctx, `CREATE INDEX IF NOT EXISTS messages_chat_idx ON `+quote(s.Messages)+`(`+
			quote(s.MessageChat)+`, `+quote(s.MessageOrder)+`)`)
		return err
	})
}

// addOrder gives messages that have only the time of their creation an order.
func (d *DB) addOrder(ctx context.Context, q querier) error {
	s := &d.schema
	columns, err := d.columns(ctx, q, s.Messages)
	if err != nil {
		return err
	}
	order := []column{{name: s.MessageOrder}}
	if len(columns) == 0 || len(missing(order, columns)) == 0 ||
		len(missing([]column{{name: "created_at"}}, columns)) > 0 {
		return nil
	}
	words := strings.NewReplacer("@messages", quote(s.Messages), "@order",
		quote(s.MessageOrder), "@id", quote(s.MessageID))
	for _, st := range []string{
		`ALTER TABLE @messages ADD COLUMN @order BIGINT`,
		`UPDATE @messages AS m SET @order = n.n FROM (SELECT @id AS id, row_number() OVER (ORDER BY created_at, @id) AS n FROM @messages) n WHERE m.@id = n.id`,
		`ALTER TABLE @messages ALTER COLUMN @order SET NOT NULL, ALTER COLUMN @order ADD GENERATED BY DEFAULT AS IDENTITY`,
		`SELECT setval(pg_get_serial_sequence('@messages', '` + s.MessageOrder +
			`'), (SELECT count(*) + 1 FROM @messages), false)`,
	} {
		if _, err := q.ExecContext(ctx, words.Replace(st)); err != nil {
			return fmt.Errorf("%s: %w", words.Replace(st), err)
		}
	}
	return nil
}

// addColumns adds to a table checkpoints of the runtime's own what it lacks.
func (d *DB) addColumns(ctx context.Context, q querier) error {
	columns, err := d.columns(ctx, q, ownTable)
	if err != nil {
		return err
	}
	need := []column{{name: "seq", typ: "BIGINT GENERATED BY DEFAULT AS IDENTITY"},
		{name: "anchor_order", typ: "BIGINT"}, {name: "point", typ: "TEXT"}}
	for _, c := range missing(need, columns) {
		if c.name == "seq" && d.dialect == SQLite {
			return errors.New("table checkpoints: there is one without a column seq INTEGER PRIMARY KEY AUTOINCREMENT")
		}
		if _, err := q.ExecContext(ctx, "ALTER TABLE checkpoints ADD COLUMN "+c.name+" "+c.typ); err != nil {
			return err
		}
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// ownTables are the statements that make our tables.
func ownTables(s *Schema) []string {
	chat := ""
	if s.Chats != None {
		chat = fmt.Sprintf(" REFERENCES %s(%s) ON DELETE CASCADE", quote(s.Chats), quote(s.ChatID))
	}
	worktree := fmt.Sprintf(" REFERENCES %s(%s) ON DELETE SET NULL", quote(s.Worktrees), quote(s.WorktreeID))
	return []string{
		`CREATE TABLE IF NOT EXISTS checkpoints (
			seq $identity,
			id $own NOT NULL UNIQUE,
			chat_id $id NOT NULL` + chat + `,
			session_id $id,
			worktree_id $id` + worktree + `,
			message_id $id,
			commit_sha TEXT NOT NULL,
			label TEXT,
			created_at $when NOT NULL DEFAULT $now,
			anchor_order BIGINT,
			point TEXT
		)`,
		`CREATE INDEX IF NOT EXISTS checkpoints_chat_created_idx ON checkpoints(chat_id, created_at)`,
		`CREATE INDEX IF NOT EXISTS checkpoints_session_idx ON checkpoints(session_id)`,
		`CREATE TABLE IF NOT EXISTS checkpoint_restores (
			seq $identity,
			id TEXT NOT NULL UNIQUE,
			checkpoint_id TEXT NOT NULL,
			chat_id TEXT NOT NULL,
			session_id TEXT NOT NULL,
			worktree_id TEXT NOT NULL,
			directory TEXT NOT NULL,
			undoes TEXT,
			state TEXT NOT NULL,
			anchor_order BIGINT NOT NULL,
			newest_order BIGINT NOT NULL,
			files BOOLEAN NOT NULL DEFAULT FALSE,
			created_at $when NOT NULL DEFAULT $now
		)`,
		`CREATE UNIQUE INDEX IF NOT EXISTS checkpoint_restores_begun_idx ON checkpoint_restores(directory) WHERE state IN ('begun', 'taking back')`,
		`CREATE INDEX IF NOT EXISTS checkpoint_restores_chat_idx ON checkpoint_restores(chat_id)`,
	}
}

// runtimeTables are the statements that make the runtime's tables, as far as a
// restore touches them.
func runtimeTables(s *Schema) []string {
	r := strings.NewReplacer("@chats", quote(s.Chats), "@chatID", quote(s.ChatID),
		"@messages", quote(s.Messages), "@messageID", quote(s.MessageID), "@messageChat", quote(s.MessageChat),
		"@order", quote(s.MessageOrder),
		"@worktrees", quote(s.Worktrees), "@worktreeID", quote(s.WorktreeID), "@path", quote(s.WorktreePath),
		"@agents", quote(s.AgentSessions), "@agentChat", quote(s.AgentChat), "@status", quote(s.AgentStatus))
	ofChat := ""
	var list []string
	if s.Chats != None {
		ofChat = " REFERENCES @chats(@chatID) ON DELETE CASCADE"
		list = append(list, `CREATE TABLE IF NOT EXISTS @chats (
			@chatID $id PRIMARY KEY,
			title TEXT,
			created_at $when NOT NULL DEFAULT $now
		)`)
	}
	list = append(list, `CREATE TABLE IF NOT EXISTS @messages (
			@order $identity,
			@messageID $id NOT NULL UNIQUE,
			@messageChat $id NOT NULL`+ofChat+`,
			role TEXT NOT NULL,
			status TEXT NOT NULL DEFAULT 'complete',
			created_at $when NOT NULL DEFAULT $now
		)`,
		`CREATE TABLE IF NOT EXISTS @worktrees (
			@worktreeID $id PRIMARY KEY,
			session_id $id,
			@path TEXT NOT NULL
		)`)
	if s.AgentSessions != None {
		list = append(list, `CREATE TABLE IF NOT EXISTS @agents (
			id $id PRIMARY KEY,
			@agentChat $id NOT NULL`+ofChat+`,
			agent TEXT NOT NULL,
			@status TEXT NOT NULL
		)`)
	}
	for _, p := range s.Parts {
		if p.Table != defaultParts {
			continue // nobody knows what is in it
		}
		list = append(list, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
			id $id PRIMARY KEY,
			%s $id NOT NULL REFERENCES @messages(@messageID) ON DELETE CASCADE,
			position INTEGER NOT NULL DEFAULT 0,
			type TEXT NOT NULL,
			content TEXT NOT NULL
		)`, quote(p.Table), quote(p.Message)),
			fmt.Sprintf(`CREATE INDEX IF NOT EXISTS message_parts_message_idx ON %s(%s)`,
				quote(p.Table), quote(p.Message)))
	}
	for i := range list {
		list[i] = r.Replace(list[i])
	}
	return list
}
