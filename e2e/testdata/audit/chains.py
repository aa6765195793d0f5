# Recomputes the chains of an export with nothing but SHA-256: python3 chains.py EXPORT
#
# EXPORT is a bundle, or the JSON lines of "powerbox evidence export --format jsonl". It prints each chain with its last hash, and
# exits with 1 where a record is not what was hashed, or does not stand on the one before it.
#
# Of a record as it is stored, record_hash is that of prev_record_hash and then the record without record_hash, prev_record_hash and
# signature. They are cut out of its bytes where the alphabet has them; nothing is written anew.
import hashlib
import json
import sys

heads, wrong = {}, False
for number, line in enumerate(open(sys.argv[1], encoding='utf-8', newline='\n'), 1):
    line = line.rstrip('\n')
    if number == 1 and line.startswith('{"format":') or line.startswith(('{"leaves":', '{"checkpoint":')):
        continue
    try:
        record = json.loads(line)
        chain, prev, stated = record['powerbox']['chain_id'], record['prev_record_hash'], record['record_hash']
    except (ValueError, KeyError, TypeError):
        sys.exit(f'line {number}: not a record')
    body = ''.join(line.rpartition(f',"prev_record_hash":"{prev}","record_hash":"{stated}"')[::2])
    body = ''.join(body.rpartition(f',"signature":"{record.get("signature")}"')[::2])
    if hashlib.sha256((prev + body).encode()).hexdigest() != stated:
        wrong = True
        print(f'line {number}: record {record["record_id"]} is not what was hashed')
    if heads.get(chain, '0' * 64) != prev:
        wrong = True
        print(f'line {number}: record {record["record_id"]} does not stand on the one before it in its chain')
    heads[chain] = stated
for chain, head in heads.items():
    print(chain, head)
sys.exit(wrong)
