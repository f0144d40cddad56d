import sqlite3,sys
mode,journal=sys.argv[1],sys.argv[2]
n=int(sys.argv[3]) if len(sys.argv)>3 else 10
d=sqlite3.connect('test.db',isolation_level=None)
d.execute(f'PRAGMA journal_mode={journal}').fetchall(); d.execute(f'PRAGMA synchronous={mode}')
d.execute('CREATE TABLE t(x INTEGER PRIMARY KEY, y)')
d.execute('CREATE INDEX i ON t(y)')
for i in range(n):
    d.execute('BEGIN')
    for j in range(5): d.execute('INSERT INTO t(y) VALUES (?)',(f'{i} '+'x'*200,))
    d.execute('COMMIT')
    print(f'{i}',flush=True)
