"""Who is fastest, who is best: data sets, solvers, and a referee that is neither.

A solver is given a problem and leaves models behind; `objective` grades them later, in
float64 and by the library's one definition of objective and gap. Tables are saved, and
pictures and pages are made from saved tables only.
"""
