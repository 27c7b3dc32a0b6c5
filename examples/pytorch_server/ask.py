"""Asks the server on a port: ask.py PORT REQUESTS FILE. Requests come as from many users, at random, 50 a second in the mean.
The answers go into FILE; prints how long they took, in milliseconds, median and 99th percentile."""
import http.client
import random
import sys
import time

port, requests, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
connection = http.client.HTTPConnection("127.0.0.1", port)
prng = random.Random(3)
took, answers = [], []
for number in range(requests):
    time.sleep(prng.expovariate(50))
    begin = time.monotonic()
    connection.request("GET", f"/answer/{number}")
    answers.append(connection.getresponse().read().decode())
    took.append(1e3 * (time.monotonic() - begin))
with open(path, "w", encoding="ascii") as file:
    file.writelines(answers)
took.sort()
print(f"{took[len(took) // 2]:.2f} {took[int(len(took) * 0.99)]:.2f}")
