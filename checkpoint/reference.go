package checkpoint

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// A reference is a foreign key to a table of which a restore deletes rows.
type reference struct {
	from  string      // the table with the key, as the schema names it; or the database, if the schema does not name it
	table string      // what tells it from others of that name: see tableID
	to    string      // the table that it refers to
	acts  bool        // a row of from changes, or goes, when the row that it refers to is deleted
	pairs [][2]string // columns of from and of to
}

// removable lists the tables of which a restore deletes rows, so that a table
// comes after those that it refers to: in this order rows come back, in the other
// they go.
func (d *DB) removable(refs []reference) ([]string, error) {
	left := d.moved()
	var list []string
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(table string) bool {
			return !slices.ContainsFunc(refs, func(r reference) bool {
				return r.from == table && r.to != table && slices.Contains(left, r.to)
			})
		})
		if i < 0 {
			return nil, fmt.Errorf("tables %s refer to each other in a circle: rows could not come back",
				strings.Join(left, ", "))
		}
		list = append(list, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return list, nil
}

// ownTable has the checkpoints.
const ownTable = "checkpoints"

// moved lists the tables of which a restore deletes rows.
func (d *DB) moved() []string {
	return append(append([]string{d.schema.Messages}, partTables(&d.schema)...), ownTable)
}

// references returns all that refers to the tables of which a restore deletes
// rows. It refuses a table that would change with them and is none: nobody would
// bring that back.
func (d *DB) references(ctx context.Context, q querier) ([]reference, error) {
	known := map[string]string{}
	tables := d.moved()
	for _, table := range tables {
		id, err := d.tableID(ctx, q, table)
		if err != nil {
			return nil, err
		}
		known[id] = table
	}
	var all []reference
	for _, to := range tables {
		refs, err := d.referencesTo(ctx, q, to)
		if err != nil {
			return nil, fmt.Errorf("references to %s: %w", to, err)
		}
		for i := range refs {
			r := &refs[i]
			if name, ok := known[r.table]; ok {
				r.from = name
			} else if r.acts {
				return nil, fmt.Errorf("table %s: its rows change when one of %s is deleted, and nothing would bring "+
					"them back: name it in Schema.Parts, or let the reference be without action", r.from, to)
			}
		}
		all = append(all, refs...)
	}
	return all, nil
}

// tableID returns what tells a table from one of the same name elsewhere.
func (d *DB) tableID(ctx context.Context, q querier, table string) (id string, err error) {
	if d.dialect == SQLite {
		return strings.ToLower(table), nil
	}
	err = d.queryRow(ctx, q, `SELECT coalesce(to_regclass(?)::oid::text, '')`, quote(table)).Scan(&id)
	return id, err
}

// referencesTo returns the references to a table. from is the database's name.
func (d *DB) referencesTo(ctx context.Context, q querier, to string) (list []reference, err error) {
	query, arg := `SELECT lower(m.name), m.name, m.name || ' ' || f.id,
			f.on_delete NOT IN ('NO ACTION', 'RESTRICT'), f."from", f."to"
		FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table' AND lower(f."table") = lower(?) ORDER BY m.name, f.id, f.seq`, to
	if d.dialect == PostgreSQL {
		query, arg = `SELECT c.conrelid::oid::text, c.conrelid::regclass::text, c.oid::text,
				c.confdeltype IN ('c', 'n', 'd'), a.attname, b.attname
			FROM pg_constraint c, unnest(c.conkey, c.confkey) WITH ORDINALITY AS k(a, b, n),
				pg_attribute a, pg_attribute b
			WHERE c.contype = 'f' AND c.confrelid = to_regclass(?) AND c.conparentid = 0
				AND a.attrelid = c.conrelid AND a.attnum = k.a AND b.attrelid = c.confrelid AND b.attnum = k.b
			ORDER BY c.oid, k.n`, quote(to)
	}
	rows, err := q.QueryContext(ctx, d.bind(query), arg)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	last := ""
	for rows.Next() {
		r := reference{to: to}
		var id, column string // of the key, and in it
		var of sql.NullString
		if err := rows.Scan(&r.table, &r.from, &id, &r.acts, &column, &of); err != nil {
			return nil, err
		}
		if id != last {
			last = id
			list = append(list, r)
		}
		r2 := &list[len(list)-1]
		r2.pairs = append(r2.pairs, [2]string{column, of.String})
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return list, d.fillKeys(ctx, q, list)
}

// fillKeys names the columns of references to a primary key that do not, as SQLite
// allows.
func (d *DB) fillKeys(ctx context.Context, q querier, list []reference) error {
	for i := range list {
		r := &list[i]
		for n := range r.pairs {
			if r.pairs[n][1] != "" {
				continue
			}
			if err := d.queryRow(ctx, q, `SELECT name FROM pragma_table_info(?) WHERE pk = ?`, r.to,
				n+1).Scan(&r.pairs[n][1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A removal is what a restore deletes from a table.
type removal struct {
	table string
	where string // of a row, with @ for the table; the columns of the chat and the order follow it as arguments
	args  []any
}

func (r *removal) of(alias string) string { return strings.ReplaceAll(r.where, "@", alias) }

// checkStaying refuses to delete rows that rows refer to which stay, and would
// change or go with them.
func (d *DB) checkStaying(ctx context.Context, q querier, refs []reference, removals map[string]*removal) error {
	for _, ref := range refs {
		if !ref.acts {
			continue
		}
		from, to := removals[ref.from], removals[ref.to]
		var on []string
		for _, p := range ref.pairs {
			on = append(on, "t."+quote(p[1])+" = c."+quote(p[0]))
		}
		n := 0
		err := d.queryRow(ctx, q, `SELECT count(*) FROM `+quote(ref.from)+` AS c WHERE EXISTS (SELECT 1 FROM `+quote(ref.to)+` AS t WHERE `+strings.Join(on, " AND ")+` AND `+to.of("t")+`)
			AND (`+from.of("c")+`) IS NOT TRUE`, append(slices.Clone(to.args), from.args...)...).Scan(&n)
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%d rows of %s that stay refer to rows of %s that would go, and would change with them",
				n, ref.from, ref.to)
		}
	}
	return nil
}

// checkMovable refuses tables whose rows cannot be deleted and brought back. It
// returns what refers to them, and their names, as removable does.
func (d *DB) checkMovable(ctx context.Context, q querier) ([]reference, []string, error) {
	refs, err := d.references(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	tables, err := d.removable(refs)
	if err != nil {
		return nil, nil, err
	}
	for _, table := range tables {
		if err := d.checkKind(ctx, q, table); err != nil {
			return nil, nil, err
		}
	}
	return refs, tables, nil
}

// checkKind refuses what is no plain table, and what acts when rows are moved.
func (d *DB) checkKind(ctx context.Context, q querier, table string) error {
	var trouble sql.NullString
	var err error
	if d.dialect == SQLite {
		err = d.queryRow(ctx, q, `SELECT CASE WHEN type <> 'table' OR sql LIKE 'CREATE VIRTUAL%' THEN 'it is no table' END
			FROM sqlite_schema WHERE lower(name) = lower(?) AND type IN ('table', 'view')`, table).Scan(&trouble)
	} else {
		err = d.queryRow(ctx, q, `SELECT CASE WHEN relkind NOT IN ('r', 'p') THEN 'it is no table'
			WHEN relhasrules THEN 'it has rules'
			WHEN row_security_active(oid) THEN 'row security hides rows of it'
			WHEN relkind = 'r' AND EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = c.oid)
				THEN 'other tables inherit from it' END
			FROM pg_class c WHERE oid = to_regclass(?)`, quote(table)).Scan(&trouble)
	}
	if err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	if trouble.Valid {
		return fmt.Errorf("table %s: %s", table, trouble.String)
	}
	triggers, err := d.triggers(ctx, q, table)
	if err != nil {
		return fmt.Errorf("triggers of table %s: %w", table, err)
	}
	for _, name := range triggers {
		if !slices.Contains(d.schema.Triggers, name) {
			return fmt.Errorf("table %s: trigger %s runs when rows are deleted or inserted: name it in "+
				"Schema.Triggers if it changes nothing that an undo would have to bring back", table, name)
		}
	}
	return nil
}

// triggers returns the names of a table's triggers that run when a row is deleted
// or inserted.
func (d *DB) triggers(ctx context.Context, q querier, table string) (list []string, err error) {
	query, arg := `SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = lower(?)`, table
	if d.dialect == PostgreSQL {
		query, arg = `SELECT tgname, CASE WHEN tgtype & 12 <> 0 THEN tgname || ' DELETE ON' ELSE tgname || ' UPDATE ON' END FROM pg_trigger WHERE tgrelid = to_regclass(?) AND NOT tgisinternal`, quote(table)
	}
	rows, err := q.QueryContext(ctx, d.bind(query), arg)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		// After the name, which may have any words in it, comes what it is for.
		_, text, _ = strings.Cut(text, name)
		for word := range strings.FieldsSeq(strings.ToUpper(text)) {
			if word == "ON" {
				break
			}
			if word == "DELETE" || word == "INSERT" {
				list = append(list, name)
				break
			}
		}
	}
	return list, rows.Err()
}
