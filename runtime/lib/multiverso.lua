-- multiverso.lua - mvbench.lua under the name of Multiverso's pages.
return require 'mvbench'
