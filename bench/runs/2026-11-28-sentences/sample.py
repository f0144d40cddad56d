#!/usr/bin/env python3
"""Draws a sample of doc comments, helps and messages. Usage: sample.py TREE SEED KIND N"""
import random, re, sys, subprocess, glob, os, json
tree, seed, kind, n = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])

def sources():
    for p in sorted(glob.glob(tree + '/crates/*/src/**/*.rs', recursive=True)):
        if re.search(r'/(tests?|laws)(/|\.rs$)', p[len(tree):]) or p.endswith('_tests.rs'):
            continue
        yield p

def strip_tests(lines):
    """Lines before a `#[cfg(test)] mod` block at column 0 (tests stand last)."""
    out, i = [], 0
    while i < len(lines):
        if lines[i].startswith('#[cfg(test)]') and i + 1 < len(lines) and re.match(r'(#\[|mod )', lines[i+1]):
            j = i + 1
            while lines[j].startswith('#['): j += 1
            if lines[j].rstrip().endswith('{'):
                while lines[j] != '}': out_blank = None; j += 1
                out += [''] * (j + 1 - i); i = j + 1; continue
        out.append(lines[i]); i += 1
    return out

def docs():
    items = []
    for p in sources():
        rel = p[len(tree)+1:]
        lines = strip_tests(open(p).read().split('\n'))
        head = []
        for k, l in enumerate(lines):
            if l.startswith('//!'): head.append(l[3:].strip())
            elif head: break
        if head: items.append((rel, 1, '(module)', '\n'.join(head)))
        i, enum_indent = 0, None
        while i < len(lines):
            l = lines[i]
            m = re.match(r'(\s*)pub enum ', l)
            if m and l.rstrip().endswith('{'): enum_indent = len(m.group(1))
            if enum_indent is not None and re.match(r'\s{%d}\}' % enum_indent, l): enum_indent = None
            if l.strip().startswith('///'):
                s = i; doc = []
                while lines[i].strip().startswith('///'):
                    doc.append(lines[i].strip()[3:].strip()); i += 1
                while lines[i].strip().startswith('#['):
                    d = 0
                    while True:
                        d += lines[i].count('[') - lines[i].count(']'); i += 1
                        if d <= 0: break
                t = lines[i].strip()
                ind = len(lines[i]) - len(lines[i].lstrip())
                pub = re.match(r'pub (?!use)', t) or t.startswith('macro_rules!')
                if enum_indent is not None and ind == enum_indent + 4: pub = True
                if pub and '/args/' not in rel:
                    sig = t; k = i
                    if t.startswith('pub fn') or t.startswith('pub const fn'):
                        while not re.search(r'[{;]$', lines[k].strip()): k += 1; sig += ' ' + lines[k].strip()
                    items.append((rel, s + 1, sig, '\n'.join(doc)))
                m = re.match(r'(\s*)pub enum ', lines[i])
                if m and lines[i].rstrip().endswith('{'): enum_indent = len(m.group(1))
            i += 1
    return items

def help_of(exe, cmd, seen, items):
    t = subprocess.run([exe, *cmd, '--help'], capture_output=True, text=True).stdout
    subs = []
    sec = None; cur = None
    for l in t.split('\n'):
        if re.match(r'^\S.*:$', l): sec = l[:-1]; cur = None; continue
        if re.match(r'^\S', l): sec = None; cur = None; continue
        if sec is None: continue
        if sec == 'Commands':
            m = re.match(r'^  ([a-z][a-z-]*)(\s+(.*))?$', l)
            if m and m.group(1) != 'help': subs.append(m.group(1))
            if m: cur = [' '.join(cmd), m.group(1), [m.group(3) or '']]; items.append(cur)
            elif cur: cur[2].append(l.strip())
            continue
        if sec in ('Exit codes', 'Examples'): continue
        m = re.match(r'^ {2,6}(-\S.*|\[?<.*|\[[A-Z].*)$', l)
        if m:
            mm = re.match(r'^(.*?)(?:\s{2,}(.*))?$', m.group(1))
            cur = [' '.join(cmd), mm.group(1), [mm.group(2) or '']]; items.append(cur)
        elif cur is not None: cur[2].append(l.strip())
    for s in subs: help_of(exe, cmd + [s], seen, items)

def helps():
    exe = os.environ.get('IODYNO', tree + '/target/debug/iodyno')
    items = []; help_of(exe, [], set(), items)
    out, seen = [], set()
    for c, f, t in items:
        t = '\n'.join(t).strip()
        key = (f, re.sub(r'\s+', ' ', t))
        if f.startswith(('-h', '-V')) or f == 'help' or key in seen: continue
        seen.add(key); out.append((c, 0, f, t))
    return out

def messages():
    items = []
    for p in sources():
        rel = p[len(tree)+1:]
        if '/args/' in rel or '/build.rs' in rel or rel.startswith('crates/bench/'): continue
        src = '\n'.join(strip_tests(open(p).read().split('\n')))
        # tokenise: comments, chars, strings
        i = 0; N = len(src)
        while i < N:
            c = src[i]
            if src.startswith('//', i):
                i = src.find('\n', i)
                if i < 0: break
                continue
            if src.startswith('/*', i): i = src.find('*/', i) + 2; continue
            m = re.compile(r'b?r(#*)"').match(src, i)
            if m and (i == 0 or not (src[i-1].isalnum() or src[i-1] == '_')):
                end = src.find('"' + m.group(1), m.end()); i = end + 1 + len(m.group(1)); continue
            if c == "'":
                m = re.compile(r"'(\\.[^']*|[^\\'])'").match(src, i)
                i = m.end() if m else i + 1; continue
            if c == '"':
                j = i + 1
                while src[j] != '"': j += 2 if src[j] == '\\' else 1
                s = src[i+1:j]
                s = re.sub(r'\\\n\s*', '', s)
                before = src[max(0, i-200):i]
                ctx = before.split('\n')[-1].strip() or before.strip().split('\n')[-1].strip()
                words = re.findall(r"[A-Za-z][a-z']+", re.sub(r'\{[^}]*\}', ' ', s))
                if len(words) >= 4 and len(s.split()) >= 4 and not re.search(r'(expect|assert\w*!|panic!|unreachable!|debug_assert\w*!|todo!|reason =|Regex::new|execute\w*|prepare\w*|query\w*)\s*\(?[^"]*$', ctx) \
                   and not re.search(r'\b(SELECT|INSERT|CREATE TABLE|UPDATE|DELETE|PRAGMA|ALTER)\b', s):
                    items.append((rel, src.count('\n', 0, i) + 1, ctx[-100:], s))
                i = j + 1; continue
            i += 1
    return items

pop = {'doc': docs, 'help': helps, 'msg': messages}[kind]()
r = random.Random(f'{kind}-{seed}' if len(sys.argv) > 5 else seed)
pick = r.sample(pop, min(n, len(pop)))
print(f'# {kind}: seed {seed}, {n} of {len(pop)}')
for k, (f, ln, sig, t) in enumerate(pick, 1):
    print(f'\n[{k}] {f}:{ln}' if ln else f'\n[{k}] {f}')
    print('  > ' + sig)
    for x in t.split('\n'): print('    ' + x)
