package checkpoint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
)

// ofRestore is the column by which an archive tells restores apart.
const ofRestore = "checkpoint_restore_id"

// archiveOf returns the name of the table that keeps what restores delete from
// another.
func archiveOf(table string) string {
	const prefix, longest = "checkpoint_archive_", 61 // PostgreSQL cuts off what is over 63, and the index has two more
	if len(prefix+table) <= longest && !strings.Contains(table, ".") {
		return prefix + table
	}
	sum := sha256.Sum256([]byte(table))
	bare := table[strings.LastIndex(table, ".")+1:]
	return fmt.Sprintf("%s%.30s_%x", prefix, bare, sum[:6])
}

// makeArchives makes the archives, and brings them to the columns that the tables
// have by now.
func (d *DB) makeArchives(ctx context.Context) error {
	return d.tx(ctx, d.altering(), func(q querier) error {
		for _, table := range d.moved() {
			if err := d.makeArchive(ctx, q, table); err != nil {
				return fmt.Errorf("archive of %s: %w", table, err)
			}
		}
		return nil
	})
}

func (d *DB) makeArchive(ctx context.Context, q querier, table string) error {
	archive := quote(archiveOf(table))
	have, err := d.columns(ctx, q, archiveOf(table))
	if err != nil {
		return err
	}
	columns, err := d.rowColumns(ctx, q, table)
	if err != nil {
		return err
	}
	var statements []string
	if len(have) == 0 {
		statements = append(statements, `CREATE TABLE `+archive+` (`+quote(ofRestore)+` TEXT NOT NULL)`,
			`CREATE INDEX `+quote(archiveOf(table)+"_x")+` ON `+archive+`(`+quote(ofRestore)+`)`)
	}
	for _, c := range missing(columns, have) {
		statements = append(statements, `ALTER TABLE `+archive+` ADD COLUMN `+quote(c.name)+` `+c.typ)
		if len(have) > 0 && c.def.Valid { // as the table's own rows have got it
			statements = append(statements, `UPDATE `+archive+` SET `+quote(c.name)+` = `+c.def.String)
		}
	}
	for _, c := range columns {
		for _, old := range have {
			if d.dialect == PostgreSQL && c.name == old.name && c.typ != old.typ {
				statements = append(statements, `ALTER TABLE `+archive+` ALTER COLUMN `+quote(c.name)+` TYPE `+c.typ+
					` USING `+quote(c.name)+`::`+c.typ)
			}
		}
	}
	for _, st := range statements {
		if _, err := q.ExecContext(ctx, st); err != nil {
			return fmt.Errorf("%s: %w", st, err)
		}
	}
	return nil
}

// rowColumns returns the columns that make up a row. In SQLite they have no type
// in an archive: a value is kept as it is.
func (d *DB) rowColumns(ctx context.Context, q querier, table string) ([]column, error) {
	columns, err := d.columns(ctx, q, table)
	if err != nil || d.dialect == PostgreSQL {
		return columns, err
	}
	for i := range columns {
		columns[i].typ = ""
	}
	return columns, nil
}

// missing returns the columns that a list does not have.
func missing(of, list []column) (rest []column) {
	has := make(map[string]bool)
	for _, c := range list {
		has[c.name] = true
	}
	for _, c := range of {
		if !has[c.name] {
			rest = append(rest, c)
		}
	}
	return rest
}

// archive copies the rows of a removal and returns how many there are.
func (d *DB) archive(ctx context.Context, q querier, restore string, r *removal) (int64, error) {
	columns, err := d.rowColumns(ctx, q, r.table)
	if err != nil {
		return 0, err
	}
	n, err := d.exec(ctx, q, `INSERT INTO `+quote(archiveOf(r.table))+` (`+quote(ofRestore)+names("", columns)+`)
		SELECT CAST(? AS TEXT)`+names("t.", columns)+` FROM `+quote(r.table)+` AS t WHERE `+r.of("t"), append([]any{restore}, r.args...)...)
	if err != nil {
		return 0, fmt.Errorf("archive rows of %s: %w", r.table, err)
	}
	return n, nil
}

// delete deletes the rows of a removal. How many it says it has deleted means
// nothing: rows that refer to each other take others along.
func (d *DB) delete(ctx context.Context, q querier, r *removal) error {
	if _, err := d.exec(ctx, q, `DELETE FROM `+quote(r.table)+` AS t WHERE `+r.of("t"), r.args...); err != nil {
		return fmt.Errorf("delete rows of %s: %w", r.table, err)
	}
	left := 0
	if err := d.queryRow(ctx, q, `SELECT count(*) FROM `+quote(r.table)+` AS t WHERE `+r.of("t"),
		r.args...).Scan(&left); err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("delete rows of %s: %d are still there: does a trigger keep them?", r.table, left)
	}
	return nil
}

// bringBack moves the rows that a restore removed from a table back to it.
func (d *DB) bringBack(ctx context.Context, q querier, restore, table string) (int64, error) {
	columns, err := d.rowColumns(ctx, q, table)
	if err != nil {
		return 0, err
	}
	kept, err := d.columns(ctx, q, archiveOf(table))
	if err != nil {
		return 0, err
	}
	for _, c := range missing(kept, append(columns, column{name: ofRestore})) {
		n := 0
		if err := d.queryRow(ctx, q, `SELECT count(*) FROM `+quote(archiveOf(table))+` WHERE `+quote(ofRestore)+
			` = ? AND `+quote(c.name)+` IS NOT NULL`, restore).Scan(&n); err != nil {
			return 0, err
		}
		if n > 0 {
			return 0, fmt.Errorf("bring back rows of %s: it has no column %s any more, in which %d of them have "+
				"something", table, c.name, n)
		}
	}
	columns = missing(columns, missing(columns, kept)) // those that both have
	list := strings.TrimPrefix(names("", columns), ", ")
	identity := ""
	if d.dialect == PostgreSQL {
		identity = " OVERRIDING SYSTEM VALUE"
	}
	archive := quote(archiveOf(table))
	if table == ownTable { // as it would have become there
		if _, err := d.exec(ctx, q, `UPDATE `+archive+` SET worktree_id = NULL WHERE `+quote(ofRestore)+` = ? AND worktree_id NOT IN
			(SELECT `+quote(d.schema.WorktreeID)+` FROM `+quote(d.schema.Worktrees)+`)`, restore); err != nil {
			return 0, err
		}
	}
	n, err := d.exec(ctx, q, `INSERT INTO `+quote(table)+` (`+list+`)`+identity+` SELECT `+list+` FROM `+archive+
		` WHERE `+quote(ofRestore)+` = ?`, restore)
	if err != nil {
		return 0, fmt.Errorf("bring back rows of %s: %w", table, err)
	}
	had, err := d.exec(ctx, q, `DELETE FROM `+archive+` WHERE `+quote(ofRestore)+` = ?`, restore)
	if err == nil && had != n {
		err = fmt.Errorf("bring back rows of %s: %d of %d have come: does a trigger keep them?", table, n, had)
	}
	return n, err
}

// names lists columns, each after a comma.
func names(prefix string, columns []column) string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString(", " + prefix + quote(c.name))
	}
	return b.String()
}
