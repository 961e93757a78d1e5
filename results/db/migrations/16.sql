-- 16.sql - from version 17 on: --split=dirichlet:ALPHA follows Hsu et al. What had that name is dirichlet_classes.
UPDATE run SET split = 'dirichlet_classes' || substr(split, 10) WHERE split GLOB 'dirichlet:*';
UPDATE baseline SET options = json_set(options, '$.split', 'dirichlet_classes' || substr(options ->> 'split', 10))
WHERE options ->> 'split' GLOB 'dirichlet:*';
